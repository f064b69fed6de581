package main

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An interrupted copy of a directory to a new name is resumed by the same command.
func TestSFTPInterruptedDirectory(t *testing.T) {
	t.Parallel() // it waits most of the time
	content := bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16)
	files := map[string]string{"big": string(content), "below/small": "small"}
	for _, put := range []bool{false, true} {
		here := t.TempDir()
		l := startLab(t, nil)
		from, to := filepath.Join(l.dir, "d"), filepath.Join(here, "new")
		words := []string{"get", "-rp", "--continue", "--limit", "512k", "lab:d", to}
		if put {
			from, to = filepath.Join(here, "d"), filepath.Join(l.dir, "new")
			words = []string{"put", "-rp", "--continue", "--limit", "512k", from, "lab:new"}
		}
		for name, text := range files {
			writeFile(t, filepath.Join(from, name), text)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cmd := newRoot()
		cmd.SetArgs(l.args(words...))
		cmd.SetErr(&lockedBuffer{})
		ended := make(chan error, 1)
		go func() { ended <- cmd.ExecuteContext(ctx) }()
		awaitHidden(t, to, "", func(b []byte) bool { return bytes.HasPrefix(b, content[:1<<10]) })
		cancel()
		if err := <-ended; exitCode(err) != exitInterrupted {
			t.Errorf("%s: exit code %d, %v", words[0], exitCode(err), err)
		}
		words = slices.DeleteFunc(words, func(w string) bool { return w == "--limit" || w == "512k" })
		code, _, msg := l.haul(words...)
		if code != 0 || !strings.Contains(msg, "were there before") {
			t.Errorf("%s: the next run: exit code %d, %s", words[0], code, msg)
		}
		wantTree(t, to, files)
		// From now on it is an ordinary directory.
		if code, _, msg = l.haul(words...); code != 0 {
			t.Errorf("%s: once more: exit code %d, %s", words[0], code, msg)
		}
		wantFile(t, filepath.Join(to, "d", "below", "small"), "small")
	}
}
