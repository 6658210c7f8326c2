package main

import (
	"io"

	"rmmjob/internal/output"
)

// publishPrivate makes a file that only its owner can read, whole or not at all. Write
// returns the rows that it has written.
func publishPrivate(path, run, format string, write func(io.Writer) (rows int64, err error)) (file, error) {
	f, err := output.Create(path, run)
	if err != nil {
		return file{}, err
	}
	defer func() { _ = f.Abort() }() // does nothing to what is published
	f.KeepPrivate()
	rows, err := write(f)
	if err != nil {
		return file{}, err
	}
	done, err := f.Publish()
	return file{Path: done.Path, Rows: rows, SHA256: done.SHA256, Format: format}, err
}
