package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/openssh"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
)

// sshFlags are the flags about SSH, spelled as those of scp and sftp.
type sshFlags struct {
	loginFlags
	identities []string
	jump       string
	port       int
	config     string
	options    []string

	// Of get and put alone; 0 means automatic.
	requests    int
	requestSize console.ByteSize

	flags *pflag.FlagSet
}

func (f *sshFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.flags = flags
	flags.StringArrayVarP(&f.identities, "identity", "i", nil, "log in with the private key in `FILE`; repeat it for several")
	flags.StringVarP(&f.jump, "jump", "J", "", "connect through `[USER@]HOST[:PORT]`, or several, separated by commas")
	flags.IntVarP(&f.port, "port", "P", 0, "connect to this `PORT`, unless a URL has one")
	flags.StringVarP(&f.config, "ssh-config", "F", "", "read this `FILE` instead of ~/.ssh/config; none for no file")
	flags.StringArrayVarP(&f.options, "option", "o", nil, "a setting of ssh_config, as `KEY=VALUE`; may be repeated")
	f.loginFlags.add(cmd)
}

// addRequests adds the flags of get and put about requests, spelled as those of
// sftp.
func (f *sshFlags) addRequests(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVarP(&f.requests, "requests", "R", 0, fmt.Sprintf("have at most `N` requests in flight, 1 to %d, over one connection (default: what the path holds)", sftpclient.MaxRequests))
	flags.VarP(&f.requestSize, "request-size", "B", fmt.Sprintf("most bytes of a request, up to %s (default: what the server allows)", console.FormatSize(sftpclient.MaxRequestBytes)))
}

// check refuses what can be known to be wrong before anything begins.
func (f *sshFlags) check() error {
	if f.port < 0 || f.port > 65535 || f.port == 0 && f.flags.Changed("port") {
		return failure.Usage.Errorf("--port %d: choose 1 to 65535", f.port)
	}
	for _, o := range f.options {
		if !strings.ContainsAny(o, "= \t") {
			return failure.Usage.Errorf("-o %s: it takes a setting of ssh_config, KEY=VALUE, and no output file: that is the last argument of haul get", console.Visible(o))
		}
	}
	if f.requests < 0 || f.requests > sftpclient.MaxRequests || f.requests == 0 && f.flags.Changed("requests") {
		return failure.Usage.Errorf("--requests %d: choose 1 to %d", f.requests, sftpclient.MaxRequests)
	}
	if f.requestSize > sftpclient.MaxRequestBytes || f.requestSize == 0 && f.flags.Changed("request-size") {
		return failure.Usage.Errorf("--request-size %s: choose 1 to %s", f.requestSize.String(), console.FormatSize(sftpclient.MaxRequestBytes))
	}
	return nil
}

// A remotes holds the connections of one command, one for each server that it
// names.
type remotes struct {
	flags  *sshFlags
	dialer openssh.Dialer
	asker  *asker
	conns  int // to one server at most; 0 means the usual

	mu   sync.Mutex
	told map[string]bool // mu: texts that were shown, which come with each connection
	open map[openssh.Target]*remote
}

// remotes returns an empty set of connections. What servers and the dialer have
// to say goes to say; it may be called by several goroutines.
func (f *sshFlags) remotes(stderr io.Writer, say func(text string)) *remotes {
	r := &remotes{flags: f, told: map[string]bool{}, open: map[openssh.Target]*remote{}, asker: newAsker()}
	r.dialer = openssh.Dialer{
		Notify: func(text string) {
			r.mu.Lock()
			first := !r.told[text]
			r.told[text] = true
			r.mu.Unlock()
			if first {
				say(text)
			}
		},
		Wrap:   sftpclient.Gather,
		Stderr: stderr,
	}
	if !f.batch {
		r.dialer.Prompter = r.asker
	}
	return r
}

// close ends all connections, and leaves the terminal as it was.
func (r *remotes) close() {
	r.asker.end()
	var wg sync.WaitGroup
	for _, c := range r.open {
		wg.Go(c.close)
	}
	wg.Wait()
}

// A remote is the connection to a server.
type remote struct {
	*sftpclient.Client
	ssh  *openssh.Client
	dest openssh.Destination
}

// close ends all at once, but for files that the server has yet to be told are
// closed. The other way round, each session would wait for the server to agree to
// its end.
func (c *remote) close() {
	c.Drain()
	_ = c.ssh.Close()
	_ = c.Client.Close()
}

// connect returns the connection to the server of a location, and makes one if
// there is none. first is the file that is going to be read there first, if that
// is known. One goroutine at a time may call it.
func (r *remotes) connect(ctx context.Context, l location, first string) (*remote, error) {
	if c := r.open[l.server]; c != nil {
		return c, nil
	}
	dest, err := r.resolve(ctx, l)
	if err != nil {
		return nil, err
	}
	for _, setting := range dest.Ignored {
		if name, ok := strings.CutSuffix(setting, " (command line)"); ok { // of a file for ssh it need not be news
			r.dialer.Notify(fmt.Sprintf("note: -o %s has no effect in haul", name))
		}
	}
	if dest.Password, err = r.flags.password(); err != nil {
		return nil, err
	}
	s, err := r.dialer.Dial(ctx, dest)
	if err != nil {
		return nil, failure.Dial.Wrap(adviseSSH(err, l, r.flags))
	}
	c, err := sftpclient.New(ctx, s.Client, sftpclient.Config{
		Connect: r.further(dest), First: first, Conns: r.conns,
		Requests: r.flags.requests, RequestBytes: int(r.flags.requestSize),
	})
	if err != nil {
		_ = s.Close()
		return nil, failure.Remote.Errorf("%v: %w", l.server, err)
	}
	r.open[l.server] = &remote{Client: c, ssh: s, dest: dest}
	return r.open[l.server], nil
}

// further returns what makes further connections to a server. They ask nothing:
// nobody expects a question in the middle of a transfer, and the dialer
// remembers what the first was told.
func (r *remotes) further(dest openssh.Destination) func(context.Context) (*ssh.Client, error) {
	dest.BatchMode = true
	return func(ctx context.Context) (*ssh.Client, error) {
		c, err := r.dialer.Dial(ctx, dest)
		if err != nil {
			return nil, err
		}
		return c.Client, nil // whose end takes along what it runs over
	}
}

// resolve finds out how to reach the server of a location.
func (r *remotes) resolve(ctx context.Context, l location) (openssh.Destination, error) {
	f := r.flags
	return openssh.Resolve(ctx, destination(l.server), openssh.Overrides{
		File: f.config, Port: f.port, Jump: f.jump, Identities: r.identities(), Options: f.options,
	})
}

// identities returns the files of -i that are there, and warns of others. As for
// ssh, those named in the configuration or the usual ones then have to do.
func (r *remotes) identities() (names []string) {
	for _, name := range r.flags.identities {
		_, err := os.Stat(name)
		// What has to be expanded is looked for later.
		if errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(name, "~") && !strings.ContainsAny(name, "%$") && name != "none" {
			if _, e := os.Stat(name + ".pub"); e != nil { // the key may be an agent's
				r.dialer.Notify(fmt.Sprintf("warning: -i %s is left out: no such file", name))
				continue
			}
		}
		names = append(names, name)
	}
	return names
}

// destination returns a server for package openssh to read. A port that was
// given is in it, even that of SSH: it comes before the configuration's.
func destination(t openssh.Target) string {
	if t.Port == 0 {
		return t.String()
	}
	s := fmt.Sprintf("[%s]:%d", t.Host, t.Port)
	if t.User != "" {
		s = t.User + "@" + s
	}
	return s
}

// path returns the name of a location for the server: what begins with a tilde
// and a user's name is below that user's home directory.
func (c *remote) path(ctx context.Context, l location) (string, error) {
	switch {
	case l.path == "":
		return ".", nil
	case !strings.HasPrefix(l.path, "~"):
		return l.path, nil
	}
	p, err := c.ExpandPath(ctx, l.path)
	if errors.Is(err, errors.ErrUnsupported) {
		return "", failure.Remote.Errorf("%v: the server does not tell where ~USER is; a name with a tilde is ./%s: %w", l, console.Visible(l.path), err)
	}
	return p, failure.Remote.Wrap(err)
}

func (c *remote) list(ctx context.Context, dir string, _ bool) ([]fs.DirEntry, error) {
	return c.ReadDir(ctx, dir)
}

func (c *remote) open(ctx context.Context, name string) (store.File, error) {
	f, err := c.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Remove removes a file, and never a directory.
func (c *remote) Remove(ctx context.Context, name string) error { return c.RemoveFile(ctx, name) }

func (c *remote) tree(dir string) tree { return c.Store(dir) }
func (c *remote) tellsModes() bool     { return true }

// plain returns what a server is asked for where a location is just the name of
// something there, or nothing where it takes more to find out.
func (l location) plain() string {
	clean := path.Clean(l.path)
	switch {
	case l.protocol == ofHTTP && !l.isDirName():
		return l.webName()
	case l.path == "" || strings.HasPrefix(l.path, "~") || strings.HasSuffix(l.path, "/"):
		return ""
	case clean == "/" || clean == "." || clean == ".." || strings.HasPrefix(clean, "../"):
		return ""
	}
	return clean
}

// adviseSSH adds what a user can do about a connection that was not made.
func adviseSSH(err error, l location, f *sshFlags) error {
	if e, ok := errors.AsType[*openssh.HostKeyError](err); ok && e.Fault == openssh.Unknown {
		advice := "compare that with what the server's keeper says, and "
		if errors.Is(err, openssh.ErrBatch) {
			advice += "run haul once on a terminal and without --batch, or "
		}
		return fmt.Errorf("%w; %saccept it by -o StrictHostKeyChecking=accept-new", err, advice)
	}
	if errors.Is(err, openssh.ErrAuth) {
		var advice []string
		if len(f.identities) == 0 {
			advice = append(advice, "name a key by -i FILE")
		}
		login, ok := errors.AsType[*openssh.AuthError](err)
		keysOnly := ok && len(login.Allowed) == 1 && login.Allowed[0] == "publickey"
		if l.server.User == "" {
			advice = append(advice, "another user by USER@HOST")
		}
		switch {
		case f.passwordFile != "", keysOnly:
		case f.batch:
			advice = append(advice, "leave out --batch to be asked, or use --password-file")
		case errors.Is(err, openssh.ErrBatch):
			advice = append(advice, "use --password-file")
		}
		if len(advice) > 0 {
			return fmt.Errorf("%w; %s", err, strings.Join(advice, ", or "))
		}
		return err
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && errors.Is(err, syscall.ECONNREFUSED) && dial.Addr != nil {
		text := fmt.Sprintf("nothing listens at %v", dial.Addr)
		if l.server.Port == 0 && f.port == 0 {
			text += "; a port other than SSH's is given by -P, or in the URL"
		}
		return failure.Reword(text, err)
	}
	return err
}
