package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/transfer"
)

// fallbackAddr is where the server listens without the privilege for port 69.
const fallbackAddr = ":6969"

const serveHelp = `Serve the files under DIR until a signal ends it. At the first signal running
transfers get --grace to finish; the second ends at once.

Nothing outside DIR can be read or written: not by "..", nor by a symbolic
link. Clients may write only with --upload; an upload appears under its name
when it is whole and safe on disk, and never before.

Each transfer leaves one line in the log on standard error.`

const serveExamples = `  haul serve /srv/tftp                       on port 69, or 6969 without privilege
  haul serve . --tftp 127.0.0.1:6969         on one address
  haul serve /srv/tftp --upload create       clients may add files, not replace any`

// serveFlags are the flags of "haul serve".
type serveFlags struct {
	tftp, http, https, sftp string
	upload                  string
	maxUpload               int64
	maxTransfers            int
	blksize, windowsize     int
	grace                   time.Duration
	quiet, noOffload        bool
}

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:     "serve DIR",
		Short:   "Serve the files of a directory",
		Long:    serveHelp,
		Example: serveExamples,
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return serve(cmd.Context(), args[0], f, !cmd.Flags().Changed("tftp"), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.tftp, "tftp", ":69", "`address` for TFTP; empty switches it off")
	flags.StringVar(&f.http, "http", "", "`address` for HTTP; not built yet, must be empty")
	flags.StringVar(&f.https, "https", "", "`address` for HTTPS; not built yet, must be empty")
	flags.StringVar(&f.sftp, "sftp", "", "`address` for SFTP; not built yet, must be empty")
	flags.StringVar(&f.upload, "upload", "", "let clients write files: `create` new ones, or overwrite too")
	flags.Int64Var(&f.maxUpload, "max-upload", tftp.DefaultMaxUpload, "largest upload in `bytes`")
	flags.IntVar(&f.maxTransfers, "max-transfers", tftp.DefaultMaxTransfers, "most transfers at the same time")
	flags.IntVar(&f.blksize, "blksize", 0, "largest block size to agree to, in `bytes`; 0 means any")
	flags.IntVar(&f.windowsize, "windowsize", tftp.DefaultWindow, "largest window to agree to, in `blocks`")
	flags.DurationVar(&f.grace, "grace", tftp.DefaultGrace, "how long transfers may run on after the first signal")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "log failures only")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("upload", cobra.FixedCompletions([]cobra.Completion{"create", "overwrite"}, cobra.ShellCompDirectiveNoFileComp)))
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	flags.BoolVar(&f.noOffload, "no-offload", false, "let the kernel neither cut nor join datagrams")
	return cmd
}

// serve runs the server until ctx ends.
func serve(ctx context.Context, dir string, f serveFlags, mayFallBack bool, out io.Writer) error {
	srv, err := f.server()
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if f.quiet {
		level = slog.LevelWarn
	}
	srv.Log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))

	root, err := os.OpenRoot(dir)
	if err != nil {
		return localError{fmt.Errorf("serve %s: %w", dir, unwrapPath(err))}
	}
	defer root.Close()
	files := store.Dir(root)
	srv.Store = files
	if f.tftp == "" {
		return usagef("nothing to serve: --tftp is empty, and no other protocol is built yet")
	}
	l, err := listen(ctx, srv, f.tftp, mayFallBack, out)
	if err != nil {
		return err
	}
	if srv.Upload != tftp.NoUploads {
		go sweep(ctx, files, srv.Log)
	}
	announce(out, dir, l.Addr(), strings.HasPrefix(f.tftp, "["))
	return l.Serve(ctx)
}

// server checks the flags and makes a Server of them.
func (f serveFlags) server() (*tftp.Server, error) {
	for _, p := range []struct{ flag, addr string }{{"http", f.http}, {"https", f.https}, {"sftp", f.sftp}} {
		if p.addr != "" {
			return nil, usagef("--%s %s: this version of haul serves TFTP only", p.flag, p.addr)
		}
	}
	srv := &tftp.Server{
		MaxUpload:    f.maxUpload,
		MaxTransfers: f.maxTransfers,
		Grace:        f.grace,
		Limits:       transfer.Limits{BlockSize: f.blksize, Window: f.windowsize},
		Plain:        f.noOffload,
	}
	switch f.upload {
	case "":
	case "create":
		srv.Upload = tftp.CreateUploads
	case "overwrite":
		srv.Upload = tftp.OverwriteUploads
	default:
		return nil, usagef("--upload %s: choose create or overwrite", f.upload)
	}
	switch {
	case f.maxUpload <= 0:
		return nil, usagef("--max-upload %d: must be above 0", f.maxUpload)
	case f.maxTransfers <= 0:
		return nil, usagef("--max-transfers %d: must be above 0", f.maxTransfers)
	case f.grace <= 0:
		return nil, usagef("--grace %v: must be above 0", f.grace)
	}
	if _, _, err := net.SplitHostPort(f.tftp); f.tftp != "" && err != nil {
		return nil, usagef("--tftp: %w; it is HOST:PORT or :PORT", err)
	}
	if err := (transfer.Options{BlockSize: f.blksize, Window: f.windowsize}).Check(); err != nil {
		return nil, usageError{err}
	}
	return srv, nil
}

// listen opens the sockets, on another port than 69 if that takes a privilege
// we lack and the user did not ask for it.
func listen(ctx context.Context, srv *tftp.Server, addr string, mayFallBack bool, out io.Writer) (*tftp.Listener, error) {
	l, err := srv.Listen(ctx, addr)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EACCES) && mayFallBack:
		fmt.Fprintf(out, "haul: no privilege for port %d, taking %s instead (root, or the capability CAP_NET_BIND_SERVICE, gives it)\n", tftp.Port, fallbackAddr)
		return listen(ctx, srv, fallbackAddr, false, out)
	case errors.Is(err, syscall.EACCES):
		err = fmt.Errorf("%w: ports below 1024 take root or CAP_NET_BIND_SERVICE; try --tftp %s", err, fallbackAddr)
	case errors.Is(err, syscall.EADDRINUSE):
		err = fmt.Errorf("%w: another server has that port; end it, or choose another with --tftp", err)
	}
	return nil, listenError{err}
}

// A listenError says that a server could not open its sockets.
type listenError struct{ error }

func (e listenError) Unwrap() error { return e.error }

// announce says where the server listens, and a command to try. only6 says
// that the address was given, and is IPv6.
func announce(out io.Writer, dir string, at netip.AddrPort, only6 bool) {
	host, shown := at.Addr(), at.String()
	if host.IsUnspecified() && !only6 {
		host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if at.Addr().Is6() {
			shown = fmt.Sprintf("*:%d", at.Port())
		}
	} else if host.IsUnspecified() {
		host = netip.IPv6Loopback()
	}
	fmt.Fprintf(out, "haul: serving %s on tftp://%s\n", dir, shown)
	t := tftp.Target{Host: host.String(), Port: at.Port(), Name: sampleName(dir)}
	fmt.Fprintf(out, "haul: try: haul get %v -\n", t)
}

// sampleName returns a file that can be asked for, to make the example true.
func sampleName(dir string) string {
	entries, _ := os.ReadDir(dir) // an example is all that is at stake
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && info.Size() > 0 && e.Name()[0] != '.' {
			return e.Name()
		}
	}
	return "FILE"
}

// sweep removes what uploads of a killed server left behind.
func sweep(ctx context.Context, files *store.DirStore, log *slog.Logger) {
	n, err := files.Sweep(ctx)
	if n > 0 {
		log.Info("removed unfinished uploads of an earlier run", "files", n)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Warn("looking for unfinished uploads of an earlier run", "error", err)
	}
}

// unwrapPath takes the operation and path off an error that will name them
// itself.
func unwrapPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
