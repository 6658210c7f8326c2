package output

import (
	"bufio"
	"fmt"
	"io"
	"testing"
)

// benchRecord is a device as the API sends it, with thirty custom fields.
func benchRecord(tb testing.TB) Record {
	text := `{"id":1234567,"uid":"11111111-1111-4111-8111-1111111111a1","siteId":4321,"siteUid":"0b9d0000-0000-4000-8000-000000000001",
		"siteName":"Depot North","deviceType":{"category":"Laptop","type":"Main System Chassis"},"hostname":"WS-ALFA","intIpAddress":"10.1.2.3",
		"operatingSystem":"Microsoft Windows 11 Pro 10.0.22631","lastLoggedInUser":"DEPOT\\jo","domain":"depot.local","extIpAddress":"203.0.113.9",
		"description":"Front desk, left","online":true,"suspended":false,"deleted":false,"rebootRequired":false,"lastSeen":1741219200000,
		"lastReboot":1741000000000,"lastAuditDate":1741120000000,"creationDate":1650000000000,"deviceClass":"device","warrantyDate":"2027-03-31",
		"antivirus":{"antivirusProduct":"Windows Defender","antivirusStatus":"RunningAndUpToDate"},
		"patchManagement":{"patchStatus":"FullyPatched","patchesInstalled":211},"portalUrl":"https://portal.example/device/1234567/WS-ALFA","udf":{"udf1":"x"`
	for i := 2; i <= 30; i++ {
		text += fmt.Sprintf(`,"udf%d":"value %d"`, i, i)
	}
	return parse(tb, text+"}}")
}

// BenchmarkRows measures a device, from the record to the bytes, against a loop
// that only writes a line of the same length.
func BenchmarkRows(b *testing.B) {
	columns, _ := Preset("devices", PresetDefault)
	rec, headers := benchRecord(b), Headers(columns, Style{})
	row := Row(nil, columns, rec, Style{})
	size := len(writeCSV(b, CSVOptions{}, headers, row)) - len(writeCSV(b, CSVOptions{}, headers))
	line := make([]byte, size)
	b.Run("lines", func(b *testing.B) {
		w := bufio.NewWriterSize(io.Discard, bufferSize)
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := w.Write(line); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, bb := range []struct {
		name  string
		cells bool
		make  func() (Writer, error)
	}{
		{"csv", false, func() (Writer, error) { return NewCSV(io.Discard, headers, CSVOptions{}) }},
		{"cells and csv", true, func() (Writer, error) { return NewCSV(io.Discard, headers, CSVOptions{}) }},
		{"jsonl", false, func() (Writer, error) { return NewJSONL(io.Discard, headers) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			w, err := bb.make()
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if bb.cells {
					row = Row(row, columns, rec, Style{})
				}
				if err := w.Row(row); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSorter sorts 20,000 devices, in memory and spilled.
func BenchmarkSorter(b *testing.B) {
	columns, _ := Preset("devices", PresetDefault)
	row := Row(nil, columns, benchRecord(b), Style{})
	for _, budget := range []int{64 << 20, 2 << 20} {
		b.Run(fmt.Sprintf("%dMiB", budget>>20), func(b *testing.B) {
			dir := b.TempDir()
			b.ReportAllocs()
			for b.Loop() {
				s := NewSorter(dir, budget)
				for i := range 20_000 {
					if err := s.Add(fmt.Appendf(nil, "%05d", i*7919%20_000), row); err != nil {
						b.Fatal(err)
					}
				}
				n := 0
				for _, err := range s.Rows() {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if err := s.Close(); err != nil || n != 20_000 {
					b.Fatal(n, err)
				}
			}
		})
	}
}
