package output

import "fmt"

// Writer writes rows in one format. The header or the names of the fields are
// given when it is made, so a file without rows still has its columns.
type Writer interface {
	// Row writes one row with exactly one cell per column. After an error the
	// writer is of no use; Close gives the error again.
	Row(row []Value) error
	// Rows is the number of rows so far, without the header.
	Rows() int64
	// Close writes what is buffered. It does not close the writer below. A file
	// is complete only if Close returned nil.
	Close() error
}

// ExcelMaxRows is the number of rows a sheet of Excel can hold, header
// included. Longer files are written all the same; a warning is for the caller.
const ExcelMaxRows = 1_048_576

// bufferSize is the size of the writers' buffers in bytes.
const bufferSize = 64 << 10

func checkWidth(row []Value, columns int) error {
	if len(row) != columns {
		return fmt.Errorf("row has %d cells for %d columns", len(row), columns)
	}
	return nil
}
