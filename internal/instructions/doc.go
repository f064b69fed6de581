// Package instructions is a test. It counts the instructions that hot paths execute, by callgrind.
// Its benchmarks run next to the code, without a kernel or a network. Unlike times, the counts are
// the same on a busy machine, within half a percent, so a test can compare them with the counts
// recorded in testdata/counts.txt.
//
// A change that costs more, or less, fails the test. If the change is intended, record the new
// counts:
//
//	go test ./internal/instructions -update
//
// A new line of the file has 0 as its count, and -update fills it in.
package instructions
