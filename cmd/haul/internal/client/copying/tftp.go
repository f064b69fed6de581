package copying

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
	"github.com/haul-project/haul/tftp/tftpclient"
)

// copyTFTP copies files over TFTP.
func copyTFTP(ctx context.Context, cfg *Config, from []remote.Location, to remote.Location) error {
	live, plan := true, uploads
	if from[0].IsRemote() {
		live, plan = to.Text != "-" || !console.IsTerminal(cfg.Stdout), downloads
	}
	jobs, err := plan(cfg, from, to)
	if err != nil {
		return err
	}
	return runJobs(ctx, cfg, jobs, live)
}

// A transferJob is one file to transfer.
type transferJob struct {
	name  string // name of the source file: on the server or, for an upload, on this machine
	shown string // the source, as a user could type it
	to    string // the target, as a user could type it
	// run transfers the file.
	run func(context.Context, *tftpclient.Client) (tftpclient.Result, error)
}

// downloads returns a job for each file to download, with the local name that the file gets.
func downloads(cfg *Config, from []remote.Location, at remote.Location) ([]transferJob, error) {
	local := at.Path
	intoDir := strings.HasSuffix(local, "/")
	if info, err := os.Stat(local); err == nil {
		intoDir = info.IsDir()
	}
	switch {
	case len(from) > 1 && local == "-":
		return nil, failure.Usage.Errorf("several files cannot go to standard output")
	case len(from) > 1 && local != "" && !intoDir:
		return nil, failure.Usage.Errorf("several files need a directory, and %s is none", local)
	}
	var jobs []transferJob
	taken := make(map[string]string)
	for _, l := range from {
		t, err := cfg.Remote.TFTP.File(l)
		if err != nil {
			return nil, err
		}
		to := local
		if local == "" || intoDir {
			base := path.Base(strings.ReplaceAll(t.Name, `\`, "/"))
			if base == "." || base == ".." || base == "/" || strings.ContainsRune(base, filepath.Separator) {
				return nil, failure.Usage.Errorf("%v: the URL gives no file name to store it under; name one", t)
			}
			to = filepath.Join(local, base)
		}
		if other, ok := taken[to]; ok {
			return nil, failure.Usage.Errorf("%v and %s would both become %s", t, other, to)
		}
		taken[to] = l.Text
		jobs = append(jobs, transferJob{name: t.Name, shown: l.Text, to: to, run: func(ctx context.Context, c *tftpclient.Client) (tftpclient.Result, error) {
			return download(ctx, c, t, to, cfg.Stdout)
		}})
	}
	return jobs, nil
}

// download fetches one file to the local file or pipe `to`, or to stdout if that is "-".
func download(ctx context.Context, c *tftpclient.Client, t tftpclient.Target, to string, stdout io.Writer) (tftpclient.Result, error) {
	if to == "-" {
		return downloadTo(ctx, c, t, stdout)
	}
	if info, err := os.Stat(to); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		f, err := openPipe(ctx, to)
		if err != nil {
			return tftpclient.Result{}, err
		}
		defer f.Close()
		return downloadTo(ctx, c, t, f)
	}
	return c.GetFile(ctx, t.String(), to)
}

// downloadTo fetches one file to a writer that cannot seek.
func downloadTo(ctx context.Context, c *tftpclient.Client, t tftpclient.Target, w io.Writer) (tftpclient.Result, error) {
	if !readerMayWait(w) {
		return c.Get(ctx, t, func(int64) (store.Upload, error) { return &stream{w: w}, nil })
	}
	s, err := newSpool(w)
	if err != nil {
		return tftpclient.Result{}, err
	}
	res, err := c.Get(ctx, t, func(int64) (store.Upload, error) { return s, nil })
	if waitErr := s.wait(ctx); err == nil {
		err = waitErr
	}
	return res, err
}

// uploads returns a job for each file to upload, with the name that the file gets on the server.
func uploads(cfg *Config, from []remote.Location, at remote.Location) ([]transferJob, error) {
	t, err := cfg.Remote.TFTP.Target(at)
	if err != nil {
		return nil, err
	}
	intoDir := t.Name == "" || strings.HasSuffix(t.Name, "/")
	if len(from) > 1 && !intoDir {
		return nil, failure.Usage.Errorf("several files need a URL that ends in a slash, and %v does not", t)
	}
	var jobs []transferJob
	for _, l := range from {
		file := l.Path
		if file == "-" {
			return nil, failure.Usage.Errorf("standard input cannot be sent: TFTP names the size first; send a file")
		}
		to := t
		if intoDir {
			to.Name += filepath.Base(file)
		}
		jobs = append(jobs, transferJob{name: filepath.ToSlash(file), shown: file, to: to.String(), run: func(ctx context.Context, c *tftpclient.Client) (tftpclient.Result, error) {
			return c.PutFile(ctx, file, to.String())
		}})
	}
	return jobs, nil
}

// runJobs transfers files, several at a time, and returns all errors.
func runJobs(ctx context.Context, cfg *Config, jobs []transferJob, live bool) error {
	t, err := remote.OpenTFTP(cfg.Remote.TFTP, cfg.Stderr)
	if err != nil {
		return err
	}
	defer t.Close()
	// With a trace on standard error, redraw no lines, because they would mix with the trace.
	show := newProgress(cfg, live && !cfg.Remote.TFTP.Trace.Text, shownName)
	defer show.end()
	show.expect(len(jobs))
	var wg sync.WaitGroup
	slots := make(chan struct{}, cmp.Or(cfg.Parallel, DefaultParallel))
	errs := make([]error, len(jobs))
	for n, j := range jobs {
		c := t.Client()
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			i := &treecopy.Item{From: j.name, As: j.shown, Size: unknownSize}
			show.begin(i, j.to)
			c.Progress = func(bytes, size int64) { show.movedTo(i, bytes, size) }
			res, err := j.run(ctx, c)
			errs[n] = show.complete(ctx, i, j.to, singleResult{res.Bytes, res.Duration, res.Packets(), res.Resent, err})
			if res.Resent+res.Timeouts+res.Duplicates > 0 {
				c.Wait() // repeat the last acknowledgement if necessary: on a path that loses packets, it may be lost
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
