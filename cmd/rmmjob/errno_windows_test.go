package main

import "golang.org/x/sys/windows"

// What the system says when a disk is full, a reader is gone or a stream was never open.
const (
	errnoFull  = windows.ERROR_DISK_FULL
	errnoGone  = windows.ERROR_NO_DATA
	errnoNever = windows.ERROR_INVALID_HANDLE
)
