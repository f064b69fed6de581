package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/store"
)

const probeHelp = `Print the size in bytes of the file at each location, over SFTP, HTTP(S) or TFTP. A
LOCATION is sftp://[USER@]HOST[:PORT]/PATH or [USER@]HOST:PATH,
http(s)://[USER@]HOST[:PORT]/PATH, or tftp://HOST[:PORT]/NAME. Of several, each line has
the location too.

No data is fetched: over HTTP the size is asked for by HEAD, or by one byte of the file
where the server has no HEAD; over TFTP the server tells it by the option tsize.`

const probeExamples = `  haul probe tftp://192.0.2.1/boot/kernel
  haul probe https://example.com/images/disk.img
  haul probe --batch host:backup/db.sql.gz`

func newProbe() *cobra.Command {
	var f transferFlags
	var s sshFlags
	var w webFlags
	cmd := &cobra.Command{
		Use:     "probe LOCATION...",
		Short:   "Print the size of files without fetching them",
		Long:    probeHelp,
		Example: probeExamples,
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, words []string) error {
			out := cmd.OutOrStdout()
			if ok, err := onWeb(cmd, &w, words, func(ctx context.Context, ws *webs, list []location) error {
				ws.quiet = f.quiet
				return probe(ctx, out, list, ws.size)
			}); ok {
				return err
			}
			list, err := parseLocations(words)
			if err != nil {
				return err
			}
			for _, l := range list {
				if l.remote() && l.protocol != list[0].protocol {
					return notSFTP("probe", l)
				}
			}
			switch list[0].protocol {
			case ofLocal:
				if err := schemeless(list[0].text); err != nil {
					return err
				}
				return usagef("probe %v: that is a local file; a location is a URL sftp://HOST/PATH, https://HOST/PATH or tftp://HOST/FILE, or HOST:PATH", list[0])
			case ofSFTP:
				return onServers(cmd, &s, words, func(ctx context.Context, r *remotes, list []location) error {
					return probe(ctx, out, list, r.size)
				})
			}
			if err := onlyFlagsOf(ofTFTP, cmd); err != nil {
				return err
			}
			return f.probe(cmd, list)
		},
	}
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but sizes and errors")
	addFor(cmd, f.addTFTP, ofTFTP)
	addServers(cmd, &s, &w)
	flagSections(cmd)
	return cmd
}

// probe prints the sizes of files, each as soon as it is known.
func probe(ctx context.Context, out io.Writer, list []location, size func(context.Context, location) (int64, error)) error {
	var errs []error
	name := console.NameFormat(out)
	for _, l := range list {
		n, err := size(ctx, l)
		switch {
		case err != nil:
			errs = append(errs, err)
		case len(list) == 1:
			_, err = fmt.Fprintln(out, n)
			errs = append(errs, asLocal(err))
		default:
			_, err = fmt.Fprintln(out, n, name(l.text))
			errs = append(errs, asLocal(err))
		}
	}
	return errors.Join(errs...)
}

// size returns that of a file on a web server.
func (w *webs) size(ctx context.Context, l location) (int64, error) {
	if l.isDirName() {
		return 0, usagef("probe %v: the URL names no file", l)
	}
	c, err := w.connect(l, "")
	if err != nil {
		return 0, err
	}
	fi, err := c.Stat(ctx, l.webName())
	if err != nil {
		return 0, asRemote(err)
	}
	if !fi.IsDir() && fi.Size() < 0 {
		return 0, fmt.Errorf("probe %v: the server does not tell the size; only to fetch the file will", l)
	}
	return fileSize(l, fi)
}

// size returns that of a file on an SFTP server.
func (r *remotes) size(ctx context.Context, l location) (int64, error) {
	c, err := r.connect(ctx, l, "")
	if err != nil {
		return 0, err
	}
	name, err := c.path(ctx, l)
	if err != nil {
		return 0, err
	}
	fi, err := c.Stat(ctx, name)
	if err != nil {
		return 0, asRemote(err)
	}
	return fileSize(l, fi)
}

// fileSize returns the size of what is at a location, if that is a file.
func fileSize(l location, fi fs.FileInfo) (int64, error) {
	switch {
	case fi.IsDir():
		return 0, remoteError{fmt.Errorf("probe %v: that is a directory, and only files have a size: %w", l, store.ErrNotRegular)}
	case fi.Mode().Type()&^fs.ModeIrregular != 0:
		return 0, remoteError{fmt.Errorf("probe %v: %w", l, store.ErrNotRegular)}
	}
	return fi.Size(), nil
}

// probe prints the sizes of files on servers of TFTP.
func (f *transferFlags) probe(cmd *cobra.Command, list []location) error {
	tracer, err := f.trace.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer closeTrace(tracer, cmd.ErrOrStderr())
	c, err := f.client(tracer)
	if err != nil {
		return err
	}
	return probe(cmd.Context(), cmd.OutOrStdout(), list, func(ctx context.Context, l location) (int64, error) {
		t, err := f.file(l.text)
		if err != nil {
			return 0, err
		}
		return c.Size(ctx, t)
	})
}
