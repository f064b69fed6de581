package copying

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/tftpclient"
)

// serveFile runs a TFTP server with a file "a" until the test ends, and returns the URL of its
// root.
func serveFile(t *testing.T, content string) (url string) {
	t.Helper()
	dir := t.TempDir()
	servetest.WriteFile(t, filepath.Join(dir, "a"), content)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() }) // once the server has ended
	return "tftp://" + servetest.TFTP(t, tftp.Config{Store: localdir.New(root)}).String() + "/"
}

// A pager may read as slowly as it likes: the transfer does not wait for it.
func TestSlowReader(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 100_000)
	url := serveFile(t, long)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fetched := make(chan error, 1)
	go func() {
		defer w.Close()
		c := &tftpclient.Client{Progress: func(bytes, size int64) {
			if bytes == size {
				fetched <- nil // the file is here, and nothing has been read
			}
		}}
		target, err := tftpclient.ParseURL(url + "a")
		if err == nil {
			_, err = downloadTo(t.Context(), c, target, w)
		}
		if err != nil {
			fetched <- err
		}
	}()
	if err := <-fetched; err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || string(got) != long {
		t.Errorf("read %d bytes of %d, %v", len(got), len(long), err)
	}
}

// A pipe without a reader does not block haul when it is interrupted.
func TestPipeWithoutReader(t *testing.T) {
	url := serveFile(t, "x")
	pipe := filepath.Join(t.TempDir(), "pipe")
	servetest.MakePipe(t, pipe)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	target, err := tftpclient.ParseURL(url + "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := download(ctx, new(tftpclient.Client), target, pipe, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the interruption", err)
	}
	// Let the goroutine that opens the pipe end.
	if f, err := os.OpenFile(pipe, os.O_RDWR, 0); err == nil {
		_ = f.Close()
	}
}
