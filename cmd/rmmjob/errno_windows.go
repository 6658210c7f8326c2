package main

import (
	"errors"

	"golang.org/x/sys/windows"
)

// The numbers that package syscall has for these on Windows are its own inventions, which the system never returns.

// connectionRefused tells whether nobody listens at an address.
func connectionRefused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }

// readerGone tells whether the reader of a pipe has closed it.
func readerGone(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA)
}

// badHandle tells whether a stream was never open.
func badHandle(err error) bool { return errors.Is(err, windows.ERROR_INVALID_HANDLE) }
