package copying

import (
	"context"
	"io"
	"io/fs"
	"os"

	"golang.org/x/term"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// A stream is a [store.Upload] to a writer that cannot seek. The data must be written in order.
type stream struct {
	w  io.Writer
	at int64
}

func (s *stream) WriteAt(p []byte, off int64) (int, error) {
	if off != s.at {
		return 0, failure.Local.Errorf("data at %d cannot be written to a stream at %d", off, s.at)
	}
	n, err := s.w.Write(p)
	s.at += int64(n)
	return n, failure.Local.Wrap(err)
}

func (s *stream) Truncate(size int64) error {
	if size != s.at {
		return failure.Local.Errorf("a stream cannot be cut")
	}
	return nil
}

func (s *stream) Commit() error { return nil }
func (s *stream) Close() error  { return nil }

// readerMayWait reports whether the reader of w may pause, as a pager does. A transfer must not
// wait for such a reader, because the server would give up.
func readerMayWait(w io.Writer) bool {
	f, ok := w.(interface {
		Fd() uintptr
		Stat() (fs.FileInfo, error)
	})
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 || term.IsTerminal(int(f.Fd()))
}

// A spool decouples a transfer from a slow reader: the transfer fills a temporary file at its own
// pace, and a goroutine copies the file to the reader.
type spool struct {
	stream
	file  *os.File
	grown chan struct{} // receives a value when the file has grown, so that there is more to copy
	ended chan struct{} // closed when the transfer has written all data
	done  chan error    // receives the result of the goroutine that copies the file to the reader
}

// newSpool returns a spool whose data goes to w. The caller must call wait.
func newSpool(w io.Writer) (*spool, error) {
	f, err := os.CreateTemp("", "haul-*")
	if err != nil {
		return nil, failure.Local.Wrap(err)
	}
	// Remove the name at once; the file itself exists until it is closed. If the system cannot remove
	// the name of an open file, wait removes it later.
	_ = os.Remove(f.Name())
	s := &spool{file: f, grown: make(chan struct{}, 1), ended: make(chan struct{}), done: make(chan error, 1)}
	s.w = f
	go func() { s.done <- s.copy(w) }()
	return s, nil
}

func (s *spool) WriteAt(p []byte, off int64) (int, error) {
	n, err := s.stream.WriteAt(p, off)
	select {
	case s.grown <- struct{}{}:
	default:
	}
	return n, err
}

// copy copies the spool to w until the data is complete.
func (s *spool) copy(w io.Writer) error {
	var at int64
	for over := false; ; {
		n, err := io.Copy(w, io.NewSectionReader(s.file, at, 1<<62-at))
		at += n
		if err != nil || over {
			return failure.Local.Wrap(err)
		}
		select {
		case <-s.grown:
		case <-s.ended:
			over = true // copy once more: data may have been written just before the transfer ended
		}
	}
}

// wait marks the data as complete, so call it after the transfer has written everything. It returns
// when the reader has received everything, when the reader has closed its end, or when ctx ends.
func (s *spool) wait(ctx context.Context) error {
	close(s.ended)
	defer func() {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}()
	select {
	case err := <-s.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// openPipe opens a pipe or a device for writing. Opening a pipe waits for its reader, but only
// until ctx ends.
func openPipe(ctx context.Context, path string) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	got := make(chan opened, 1)
	go func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		got <- opened{f, err}
	}()
	select {
	case o := <-got:
		return o.f, failure.Local.Wrap(o.err)
	case <-ctx.Done():
		return nil, ctx.Err() // the goroutine stays blocked until the process exits
	}
}
