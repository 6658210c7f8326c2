//go:build !parquet

package output

import (
	"errors"
	"io"
)

// parquetUnavailable is why this build has no Parquet: the library would add
// 7 MB to a program of 12 that most people never write Parquet with.
const parquetUnavailable = "this build of rmmjob cannot write Parquet: build it with go build -tags parquet ./cmd/rmmjob, or take another format"

func newParquet(io.Writer, []string, Spec) (Writer, error) {
	return nil, errors.New(parquetUnavailable)
}
