//go:build unix

package fdline

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// A line that does not end, with more and more files, ends the connection; none of the files stays
// open.
func TestTooManyFiles(t *testing.T) {
	ours, file, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := Of(file)
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	files := make([]*os.File, MaxFiles/2)
	for i := range files {
		files[i] = out
	}
	go func() {
		defer out.Close()
		for range 3 {
			_ = Send(ours, "x", files)
		}
		_, _ = ours.Write([]byte("\n"))
	}()
	if _, files, err := Receive(theirs); err == nil || !strings.Contains(err.Error(), "too many files") || len(files) > 0 {
		t.Errorf("%d files, %v", len(files), err)
	}
	theirs.Close()
	in.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadAll(in); err != nil {
		t.Errorf("a file stays open: %v", err)
	}
}
