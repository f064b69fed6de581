package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/glob"
	"github.com/haul-project/haul/tftp"
)

const getHelp = `Fetch files over SFTP, HTTP(S) or TFTP.

SOURCE is HOST:PATH, or a URL that begins with sftp://, http://, https:// or tftp://. LOCAL
is the file to write, a directory to put files into, or - for standard output; the default
is the current directory. A SOURCE that ends in /. stands for the contents of a directory,
and one with *, ? or ** for the names that match: put it in quotes for the shell.

A file appears under its name when it is complete. If its transfer fails, nothing is left
of it, except with --continue or --in-place.`

const getExamples = `  haul get host:backup/db.sql.gz                      over SFTP, as scp would
  haul get -r -p --continue me@192.0.2.1:/srv/images .
                                                      a directory, with permissions and times
  haul get -p --unchanged 'sftp://host:2222/var/log/*.gz' logs/
  haul get host:notes.txt - | less
  haul get --continue https://example.com/images/disk.raw
  haul get -J jump.example -i key.pem sftp://host/~/data.bin
  haul get tftp://192.0.2.1/boot/kernel /tmp/k
  haul get tftp://192.0.2.1/a tftp://192.0.2.1/b images/`

func newGet() *cobra.Command {
	var t transferFlags
	var f copyFlags
	var parallel int
	cmd := &cobra.Command{
		Use:         "get SOURCE... [LOCAL|-]",
		Short:       "Fetch files",
		Long:        getHelp,
		Example:     getExamples,
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("recursive preserve continue unchanged verify links limit parallel dry-run verbose quiet batch identity jump port", "copying", "locations", "patterns", "sizes"),
		RunE: func(cmd *cobra.Command, words []string) error {
			if err := checkParallel(parallel); err != nil {
				return err
			}
			from, local, err := splitSources(words)
			if err != nil {
				return err
			}
			if err := noTarget(from, local, f.recursive); err != nil {
				return err
			}
			if from[0].Protocol != remote.TFTP {
				return f.getCopy(cmd, from, local, parallel, t.quiet)
			}
			if err := onlyFlagsOf(remote.TFTP, cmd); err != nil {
				return err
			}
			return t.getTFTP(cmd, from, local, parallel)
		},
	}
	cmd.Flags().IntVar(&parallel, "parallel", defaultParallel, parallelHelp)
	cmd.Flags().BoolVarP(&t.quiet, "quiet", "q", false, "print nothing but errors")
	addGroup(cmd, t.addDownloads, "TFTP")
	addGroup(cmd, f.add, "SFTP", "HTTP")
	addServers(cmd, &f.ssh, &f.web)
	addGroup(cmd, f.ssh.addRequests, "SFTP")
	return cmd
}

// splitSources separates the sources of haul get from LOCAL.
func splitSources(words []string) (from []remote.Location, local string, err error) {
	last, err := remote.Parse(words[len(words)-1])
	switch {
	case words[len(words)-1] == "":
		return nil, "", failure.Usage.Errorf("LOCAL is empty; . is the current directory")
	case err != nil:
		return nil, "", err
	case !last.IsRemote():
		local, words = last.Text, words[:len(words)-1]
	}
	if len(words) == 0 {
		return nil, "", localSource(last)
	}
	if from, err = remote.ParseAll(words); err != nil {
		return nil, "", err
	}
	for _, l := range from {
		switch {
		case !l.IsRemote():
			return nil, "", localSource(l)
		case l.Protocol != from[0].Protocol:
			return nil, "", failure.Usage.Errorf("%v and %v: all sources of one command have to be of the same protocol; fetch them one after the other", from[0], l)
		}
	}
	return from, local, nil
}

// localSource refuses to get what is on this machine.
func localSource(l remote.Location) error {
	if err := remote.MissingScheme(l.Text); err != nil {
		return err
	}
	return failure.Usage.Errorf("get %v: that is a local file; a source is a URL sftp://HOST/PATH, https://HOST/PATH or tftp://HOST/FILE, or HOST:PATH", l)
}

// noTarget refuses a last source that is meant as a target: without -r nobody names
// a directory as a source.
func noTarget(from []remote.Location, local string, recursive bool) error {
	last := from[len(from)-1]
	if local != "" || len(from) < 2 || recursive || last.Protocol == remote.TFTP || !last.IsDirName() || glob.HasMeta(last.Path) {
		return nil
	}
	return failure.Usage.Errorf("get to %v: that is on a server, and get writes to this machine; get the files, and put them there", last)
}

// getTFTP fetches the files at URLs of TFTP.
func (f *transferFlags) getTFTP(cmd *cobra.Command, from []remote.Location, local string, parallel int) error {
	var urls []string
	for _, l := range from {
		urls = append(urls, l.Text)
	}
	jobs, err := f.downloads(urls, local, cmd.OutOrStdout())
	if err != nil {
		return err
	}
	bars := local != "-" && len(f.trace.peers) == 0 // they would mix with the file, or the packets
	show := console.NewProgress(cmd.ErrOrStderr(), f.quiet, bars)
	return f.runJobs(cmd.Context(), jobs, parallel, show, cmd.ErrOrStderr())
}

// A transferJob is one file to move.
type transferJob struct {
	label string // for bars and messages
	run   func(context.Context, *tftp.Client) (tftp.Result, error)
}

// downloads works out where each file goes to.
func (f *transferFlags) downloads(urls []string, local string, stdout io.Writer) ([]transferJob, error) {
	intoDir := strings.HasSuffix(local, "/")
	if info, err := os.Stat(local); err == nil {
		intoDir = info.IsDir()
	}
	switch {
	case len(urls) > 1 && local == "-":
		return nil, failure.Usage.Errorf("several files cannot go to standard output")
	case len(urls) > 1 && local != "" && !intoDir:
		return nil, failure.Usage.Errorf("several files need a directory, and %s is none", local)
	}
	var jobs []transferJob
	taken := make(map[string]string)
	for _, u := range urls {
		t, err := f.file(u)
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
		taken[to] = u
		jobs = append(jobs, transferJob{label: path.Base(t.Name), run: func(ctx context.Context, c *tftp.Client) (tftp.Result, error) {
			return download(ctx, c, t, to, stdout)
		}})
	}
	return jobs, nil
}

// download fetches one file.
func download(ctx context.Context, c *tftp.Client, t tftp.Target, to string, stdout io.Writer) (tftp.Result, error) {
	if to == "-" {
		return downloadTo(ctx, c, t, stdout)
	}
	if info, err := os.Stat(to); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		f, err := openPipe(ctx, to)
		if err != nil {
			return tftp.Result{}, err
		}
		defer f.Close()
		return downloadTo(ctx, c, t, f)
	}
	return c.GetFile(ctx, t.String(), to)
}

// downloadTo fetches one file to what cannot be rewound.
func downloadTo(ctx context.Context, c *tftp.Client, t tftp.Target, w io.Writer) (tftp.Result, error) {
	if !readerMayWait(w) {
		return c.Get(ctx, t, func(int64) (store.Upload, error) { return &stream{w: w}, nil })
	}
	s, err := newSpool(w)
	if err != nil {
		return tftp.Result{}, err
	}
	res, err := c.Get(ctx, t, func(int64) (store.Upload, error) { return s, nil })
	if waitErr := s.wait(ctx); err == nil {
		err = waitErr
	}
	return res, err
}

// runJobs moves files, some at the same time, and returns all errors. It writes a trace
// to out.
func (f *transferFlags) runJobs(ctx context.Context, jobs []transferJob, parallel int, show *console.Progress, out io.Writer) error {
	tracer, err := f.trace.open(out)
	if err != nil {
		return err
	}
	defer closeTrace(tracer, out)
	defer show.Wait()
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	errs := make([]error, len(jobs))
	for i, j := range jobs {
		c, err := f.client(tracer)
		if err != nil {
			return err
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			line := show.Begin(j.label)
			c.Progress = line.Update
			res, err := j.run(ctx, c)
			line.EndAfter(res.Bytes, res.Duration, fmt.Sprintf(", %d packets/s, %d resends", console.PerSecond(res.Packets(), res.Duration), res.Resent), err)
			errs[i] = err
			if res.Resent+res.Timeouts+res.Duplicates > 0 {
				c.Wait() // on a path that loses packets the last one may be lost too
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
