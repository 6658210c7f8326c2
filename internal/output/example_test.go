package output_test

import (
	"fmt"
	"os"

	"rmmjob/internal/output"
)

func Example() {
	columns, err := output.Resolve("devices", []output.ColumnSpec{
		{Path: "hostname"},
		{Path: "lastSeen"},
		{Header: "AssetTag", Path: "udf.udf1"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var style output.Style
	sorter := output.NewSorter(os.TempDir(), 16<<20)
	defer sorter.Close()
	for _, element := range []string{
		`{"hostname":"WS-BRAVO","siteName":"Depot","lastSeen":1741219200000,"udf":{"udf1":"4711, \"left\""}}`,
		`{"hostname":"WS-ALFA","siteName":"Depot","lastSeen":null}`,
	} {
		record, err := output.ParseRecord([]byte(element))
		if err != nil {
			fmt.Println(err)
			return
		}
		key := output.SortKey(record, output.Ascending(output.DefaultSort("devices")...))
		if err := sorter.Add(key, output.Row(nil, columns, record, style)); err != nil {
			fmt.Println(err)
			return
		}
	}
	// To a file it would go through Create and Publish.
	w, err := output.NewCSV(os.Stdout, output.Headers(columns, style), output.CSVOptions{EOL: "lf"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for row, err := range sorter.Rows() {
		if err == nil {
			err = w.Row(row)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// hostname,lastSeen,AssetTag
	// WS-ALFA,,
	// WS-BRAVO,2025-03-06T00:00:00Z,"4711, ""left"""
}
