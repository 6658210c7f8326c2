package main

import "testing"

func BenchmarkS1(b *testing.B) {
	for b.Loop() {
		scenarios()[0].run(1, contenders()[0])
	}
}
func BenchmarkS1Oracle(b *testing.B) {
	for b.Loop() {
		scenarios()[0].run(1, contender{name: "oracle", make: newOracle})
	}
}
