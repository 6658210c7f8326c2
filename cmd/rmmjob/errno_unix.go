//go:build !windows

package main

import (
	"errors"
	"syscall"
)

// connectionRefused tells whether nobody listens at an address.
func connectionRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// readerGone tells whether the reader of a pipe has closed it.
func readerGone(err error) bool { return errors.Is(err, syscall.EPIPE) }

// badHandle tells whether a stream was never open.
func badHandle(err error) bool { return errors.Is(err, syscall.EBADF) }
