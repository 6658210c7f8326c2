//go:build !windows

package main

import "syscall"

// What the system says when a disk is full, a reader is gone or a stream was never open.
const (
	errnoFull  = syscall.ENOSPC
	errnoGone  = syscall.EPIPE
	errnoNever = syscall.EBADF
)
