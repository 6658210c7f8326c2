package rmmsim

import "testing"

func BenchmarkDevicePage(b *testing.B) {
	c := newTester(b, Config{Devices: 1000, Limits: Limits{Off: true}, LogLimit: 10})
	for b.Loop() {
		c.get("/v2/account/devices?max=250")
	}
}

func BenchmarkNew100000(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(Config{Devices: 100_000}); err != nil {
			b.Fatal(err)
		}
	}
}
