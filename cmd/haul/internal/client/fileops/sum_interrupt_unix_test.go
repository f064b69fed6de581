//go:build unix

package fileops

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

// An interrupted run does not wait for a pipe, whether it holds a list or is to be hashed.
func TestSumInterrupted(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // unblocks goroutines that wait to open the pipe
		if f, err := os.OpenFile(pipe, os.O_RDWR, 0); err == nil {
			_ = f.Close()
		}
	})
	line := strings.Repeat("0", 64) + "  " + pipe + "\n"
	silent, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() })
	check := func(list string, stdin io.Reader) func(context.Context) error {
		return func(ctx context.Context) error {
			return CheckSums(ctx, nil, []string{list}, nil, SumConfig{Say: func(err error) { t.Error(err) }}, stdin, io.Discard)
		}
	}
	for name, run := range map[string]func(context.Context) error{
		"a silent list":            check("-", silent),
		"a list that is a pipe":    check(pipe, nil),
		"a pipe that a list names": check("-", strings.NewReader(line)),
		"a pipe that is a location": func(ctx context.Context) error {
			return Sum(ctx, nil, []remote.Location{{Protocol: remote.Local, Path: pipe}}, SumConfig{}, io.Discard)
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// In directories, sum -r leaves out special files: opening a pipe may block for ever.
func TestSumSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "f"), nil, 0o600)
	}
	if err == nil {
		err = os.Symlink("f", filepath.Join(dir, "link"))
	}
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Sum(t.Context(), nil, []remote.Location{{Protocol: remote.Local, Path: dir}}, SumConfig{Recursive: true}, &out); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%v, %q", err, out.String())
	}
}
