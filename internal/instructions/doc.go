// Package instructions contains only a test. It counts the instructions that hot paths execute, with
// callgrind. The benchmarks that it runs call the code directly, without a kernel or a network.
// Unlike times, the counts are the same on a busy machine, within half a percent, so the test can
// compare them with the counts recorded in testdata/counts.txt.
//
// The test fails after a change to the code that costs more instructions, or fewer. If that is
// intended, record the new counts:
//
//	go test ./internal/instructions -update
//
// To add a benchmark, add a line with the count 0 to the file; -update then fills in the count.
package instructions
