package copying

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/events"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/store/treecopy"
)

// streamBytes is the maximum number of bytes of one read or write of a stream.
const streamBytes = 256 << 10

// isPipe reports whether a name is a pipe, a device or a socket, to which data must be written in
// order.
func isPipe(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// onlyPlain returns an error if flags are set that have no effect on a stream.
func (r *run) onlyPlain(stream string) error {
	for _, f := range []struct {
		set  bool
		name string
	}{
		{r.Recursive, "--recursive"}, {r.Continue, "--continue"}, {r.Unchanged != 0, "--unchanged"}, {r.PreserveMode, "--preserve"},
		{r.Sparse, "--sparse"}, {r.Verify, "--verify"}, {r.NoClobber, "--no-clobber"}, {r.Update, "--update"}, {r.DryRun, "--dry-run"}, {r.InPlace && r.fromServer, "--in-place"}, {r.Durable && r.fromServer, "--fsync"},
	} {
		if f.set {
			return failure.Usage.Errorf("%s: not with %s, which is no file", f.name, stream)
		}
	}
	return nil
}

// getStream fetches one file to standard output, a pipe or a device.
func (r *run) getStream(ctx context.Context, from []remote.Location, local string) error {
	name, to := "standard output", r.Stdout
	if local != "-" {
		name = console.Visible(local)
	}
	if len(from) > 1 {
		return failure.Usage.Errorf("several files cannot go to %s", name)
	}
	if err := r.onlyPlain(name); err != nil {
		return err
	}
	l := from[0]
	if l.Protocol == remote.HTTP && l.IsDirName() {
		return failure.Usage.Errorf("get %v: that is a directory; only a file can go to %s", l, name)
	}
	c, err := r.servers.Connect(ctx, l, r.toRead(l.PlainName()))
	if err != nil {
		return err
	}
	found, err := remote.Find(ctx, c, l)
	if err != nil {
		return err
	}
	if len(found) > 1 {
		return failure.Usage.Errorf("%v: %d files match, and only one can go to %s", l, len(found), name)
	}
	f, err := c.Open(ctx, found[0].Name)
	if err != nil {
		return failure.Remote.Wrap(err)
	}
	defer f.Close()
	var size int64
	if info, err := f.Stat(); err == nil {
		if size = max(info.Size(), 0); info.IsDir() {
			return failure.Remote.Errorf("get %v: %w; only a file can go to %s", l, treecopy.ErrDirectory, name)
		}
	}
	if local != "-" {
		pipe, err := openPipe(ctx, local)
		if err != nil {
			return err
		}
		defer pipe.Close()
		to = pipe
	}
	i := &treecopy.Item{From: found[0].Name, As: l.Text, Size: cmp.Or(size, unknownSize)}
	show := r.showSingle(local != "-" || !console.IsTerminal(r.Stdout), i, local)
	w := &pacedWriter{ctx: ctx, w: to, note: func(n int64) { show.movedTo(i, n, size) }}
	w.pace.Set(r.Limit)
	n, err := remote.Stream(ctx, f, w, name)
	show.end()
	return show.complete(ctx, i, local, singleResult{bytes: n, err: err})
}

// showSingle starts to show the progress of a single file that is not part of a tree.
func (r *run) showSingle(live bool, i *treecopy.Item, to string) *progress {
	p := r.newProgress(live, shownName)
	if i.Size == unknownSize {
		p.expect(1)
	} else {
		p.setFound(treecopy.Totals{Files: 1, Bytes: i.Size, All: true})
		r.Events.Emit(&events.Found{Files: 1, Bytes: i.Size})
	}
	p.begin(i, to)
	return p
}

// putStream sends standard input to a file.
func (r *run) putStream(ctx context.Context, to remote.Location) error {
	if err := r.onlyPlain("standard input"); err != nil {
		return err
	}
	if to.IsDirName() || strings.HasSuffix("/"+to.Path, "/..") {
		return failure.Usage.Errorf("put - %v: standard input has no name; give the file one", to)
	}
	c, name, err := r.servers.At(ctx, to)
	if err != nil {
		return err
	}
	// A web server refuses such a PUT itself, and may not say before that the name is a directory.
	if to.Protocol != remote.HTTP {
		if fi, err := c.Stat(ctx, name); err == nil && fi.IsDir() {
			return failure.Remote.Errorf("put - %v: that is a directory, and standard input has no name; give the file one", to)
		}
	}
	i := &treecopy.Item{From: name, As: "-", Size: unknownSize}
	show := r.showSingle(true, i, to.Text)
	n, err := r.sendStream(ctx, c, name, func(n int64) { show.movedTo(i, n, 0) })
	show.end()
	return show.complete(ctx, i, to.Text, singleResult{bytes: n, err: err})
}

// sendStream sends standard input to the file called `name` on a server. Without --inplace, it
// writes to a temporary file until the data is complete. It returns the number of bytes sent.
func (r *run) sendStream(ctx context.Context, c remote.Server, name string, moved func(int64)) (int64, error) {
	u, err := remote.Begin(ctx, c, name, r.InPlace)
	if err != nil {
		return 0, failure.Remote.Errorf("put - to %s: %w", console.Visible(name), err)
	}
	defer u.Close()
	in := &interruptibleReader{ctx: ctx, r: r.Stdin}
	var pace rate.Bucket
	pace.Set(r.Limit)
	buf := make([]byte, streamBytes)
	var at int64
	for {
		n, err := in.Read(buf)
		if n > 0 {
			if _, err := u.WriteAt(buf[:n], at); err != nil {
				return at, failure.Remote.Errorf("put - to %s: %w", console.Visible(name), err)
			}
			at += int64(n)
			moved(at)
			if err := rate.Sleep(ctx, pace.Take(time.Now(), n)); err != nil {
				return at, err
			}
		}
		switch {
		case err == io.EOF:
			if err := u.Commit(); err != nil {
				return at, failure.Remote.Errorf("put - to %s: %w", console.Visible(name), err)
			}
			return at, nil
		case ctx.Err() != nil:
			return at, fmt.Errorf("put - to %s: %w", console.Visible(name), ctx.Err())
		case err != nil:
			return at, failure.Local.Errorf("read standard input: %w", err)
		}
	}
}

// A pacedWriter limits the rate at which data is written to w. It passes the number of bytes
// written so far to note.
type pacedWriter struct {
	ctx  context.Context
	w    io.Writer
	pace rate.Bucket
	at   int64
	note func(int64)
}

func (w *pacedWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		var some int
		some, err = w.w.Write(p[:min(len(p), streamBytes)])
		n, p, w.at = n+some, p[some:], w.at+int64(some)
		w.note(w.at)
		if err == nil {
			err = rate.Sleep(w.ctx, w.pace.Take(time.Now(), some))
		}
	}
	return n, err
}

// An interruptibleReader is a reader whose Read returns when the context ends. That is needed for
// standard input, which may never deliver more data.
type interruptibleReader struct {
	ctx context.Context
	r   io.Reader

	own  []byte // buffer for reading from r: the goroutine that reads may still run after Read has returned
	came chan readResult
}

type readResult struct {
	n   int
	err error
}

func (i *interruptibleReader) Read(p []byte) (int, error) {
	if i.came == nil {
		i.came = make(chan readResult, 1)
		i.own = make([]byte, len(p))
	}
	if i.ctx.Err() != nil {
		return 0, i.ctx.Err()
	}
	go func() {
		n, err := i.r.Read(i.own[:min(len(i.own), len(p))])
		i.came <- readResult{n, err}
	}()
	select {
	case r := <-i.came:
		return copy(p, i.own[:r.n]), r.err
	case <-i.ctx.Done():
		return 0, i.ctx.Err() // the goroutine stays blocked until the process exits
	}
}
