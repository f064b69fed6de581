//go:build !unix

package servetest

import "testing"

// MakePipe skips the test, because this system has no named pipes.
func MakePipe(t *testing.T, _ string) {
	t.Helper()
	t.Skip("no named pipes here")
}
