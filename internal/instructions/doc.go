// Package instructions is a test. It counts the instructions that hot paths execute, by
// callgrind: benchmarks beside the code, in which no kernel and no network take part.
// Unlike times, the counts are the same on a busy machine, within half a percent, and so
// a test can hold them to those recorded in testdata/counts.txt.
//
// A change that costs more, or less, fails the test. If that is meant, record it:
//
//	go test ./internal/instructions -update
//
// A new line of the file has 0 as its count, and -update fills it in.
package instructions
