package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/openssh"
	"github.com/haul-project/haul/cmd/haul/internal/client/runs"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
)

// An sshDialer connects to servers over SSH.
type sshDialer struct {
	cfg     *Config
	notices *notices
	dialer  openssh.Dialer
	runs    *runs.Runs
}

func newSSHDialer(cfg *Config, n *notices, a *asker) *sshDialer {
	d := &sshDialer{cfg: cfg, notices: n, runs: runs.OfUser()}
	d.dialer = openssh.Dialer{Notify: d.notify, Wrap: sftpclient.Gather, Stderr: cfg.Stderr}
	if !cfg.Batch {
		d.dialer.Prompter = a
	}
	return d
}

func (d *sshDialer) notify(text string) {
	if !d.cfg.Quiet {
		d.notices.print(text, text)
	}
}

// An sftpServer is a [Server] for SFTP.
type sftpServer struct {
	*sftpclient.Client
	// ssh is the connection that SFTP runs over; nil if that is another program, which Close of the
	// sftpclient.Client stops.
	ssh *openssh.Client
}

// Close first sends the requests that close files on the server. Then it closes the connection
// before the sessions, because closing a session would wait for the server's confirmation.
func (c *sftpServer) Close() error {
	c.Drain()
	if c.ssh != nil {
		_ = c.ssh.Close()
	}
	return c.Client.Close()
}

// connect connects to the server of a location.
func (d *sshDialer) connect(ctx context.Context, l Location, to Intent) (*sftpServer, error) {
	if len(d.cfg.SSH.Command) > 0 {
		return d.connectBy(ctx, l, to)
	}
	dest, err := d.resolve(ctx, l)
	if err != nil {
		return nil, err
	}
	for _, setting := range dest.Ignored {
		// Report only settings on the command line. A setting in a file is meant for ssh, and users
		// do not expect that haul applies all of them.
		if name, ok := strings.CutSuffix(setting, " (command line)"); ok {
			d.notify(fmt.Sprintf("note: -o %s has no effect in haul", name))
		}
	}
	if dest.Password, err = PasswordIn(d.cfg.PasswordFile); err != nil {
		return nil, err
	}
	c, err := d.connectTo(ctx, dest, l, to)
	if _, ok := errors.AsType[*failure.Error](err); err != nil && !ok {
		err = failure.Dial.Wrap(adviseSSH(err, l, d.cfg))
	}
	return c, err
}

// connectTo connects to the server at dest. It does not give connection errors a [failure.Kind].
func (d *sshDialer) connectTo(ctx context.Context, dest openssh.Destination, l Location, to Intent) (*sftpServer, error) {
	s, err := d.dialer.Dial(ctx, dest)
	if err != nil {
		return nil, err
	}
	config := d.clientConfig(to)
	config.Connect, config.RoundTrip = d.further(dest), s.RoundTrip()
	c, err := sftpclient.New(ctx, s.Client, config)
	if err != nil {
		_ = s.Close()
		return nil, noSession(l, err)
	}
	return &sftpServer{Client: c, ssh: s}, nil
}

// noSession returns the error for a server on which no SFTP session could begin. If the server does
// not speak SFTP, that counts as no answer.
func noSession(l Location, err error) error {
	kind := failure.Remote
	if errors.Is(err, sftpclient.ErrProtocol) {
		kind = failure.Dial
	}
	return kind.Errorf("%v: %w", l.server, err)
}

// clientConfig returns the settings of the SFTP client that are the same for all kinds of
// connections.
func (d *sshDialer) clientConfig(to Intent) sftpclient.Config {
	return sftpclient.Config{
		First: to.First, Expect: to.Expect, Conns: d.cfg.Conns,
		Requests: d.cfg.SSH.Requests, RequestBytes: d.cfg.SSH.RequestBytes,
		Timeout: d.cfg.Patience.Answer, Stall: d.cfg.Patience.Stall, Runs: d.runs,
	}
}

// further returns a function that makes further connections to a server. They ask no questions,
// because the user does not expect a question in the middle of a transfer. The dialer reuses the
// answers that were given for the first connection.
func (d *sshDialer) further(dest openssh.Destination) func(context.Context) (*ssh.Client, error) {
	dest.BatchMode = true
	return func(ctx context.Context) (*ssh.Client, error) {
		c, err := d.dialer.Dial(ctx, dest)
		if err != nil {
			return nil, err
		}
		return c.Client, nil // closing this connection also closes the connections that it runs over
	}
}

// resolve finds out how to reach the server of a location.
func (d *sshDialer) resolve(ctx context.Context, l Location) (openssh.Destination, error) {
	c := &d.cfg.SSH
	return openssh.Resolve(ctx, destination(l.server), openssh.Overrides{
		File: c.ConfigFile, Port: c.Port, Jump: c.Jump, Identities: d.identities(), Options: c.Options,
		NoExec: d.cfg.served, Account: d.cfg.Account,
	})
}

// identities returns the files of -i that exist, and warns about missing ones. If all are missing,
// the configured or default keys are used, as in ssh.
func (d *sshDialer) identities() (names []string) {
	for _, name := range d.cfg.SSH.Identities {
		_, err := os.Stat(name)
		// A file whose name needs expansion is not checked here, but when the key is read.
		if errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(name, "~") && !strings.ContainsAny(name, "%$") && name != "none" {
			if _, e := os.Stat(name + ".pub"); e != nil { // with a public key, an agent may have the private key
				d.notify(fmt.Sprintf("warning: -i %s is left out: no such file", name))
				continue
			}
		}
		names = append(names, name)
	}
	return names
}

// destination returns the text that package openssh parses as the target t. It keeps a port that
// the user typed, even if that is 22, because that port has precedence over the configured one.
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

// Path returns the location's name on the server. A name that begins with a tilde and a user's name
// is replaced by a path below that user's home directory.
func (c *sftpServer) Path(ctx context.Context, l Location) (string, error) {
	switch {
	case l.Path == "":
		return ".", nil
	case !strings.HasPrefix(l.Path, "~"):
		return l.Path, nil
	}
	p, err := c.ExpandPath(ctx, l.Path)
	if errors.Is(err, errors.ErrUnsupported) {
		return "", failure.Remote.Errorf("%v: the server does not tell where ~USER is; a name with a tilde is ./%s: %w", l, console.Visible(l.Path), err)
	}
	return p, failure.Remote.Wrap(err)
}

// Source returns the location as a place in a tree that begins at "/" or at the home directory.
func (c *sftpServer) Source(ctx context.Context, l Location) (p Place, err error) {
	if p.Name, err = c.Path(ctx, l); err != nil {
		return Place{}, err
	}
	if first, _, _ := strings.Cut(path.Clean(p.Name), "/"); first == ".." {
		// The name leads above the home directory, and names in a tree cannot lead above its root.
		// So the tree has to begin at "/".
		home, err := c.HomeDir(ctx, "")
		if err != nil {
			return Place{}, failure.Remote.Wrap(err)
		}
		p.Name = strings.TrimRight(home, "/") + "/" + p.Name
	}
	if strings.HasPrefix(p.Name, "/") {
		p.Dir, p.Name = "/", inRoot(p.Name)
	}
	p.Tree = c.Store(p.Dir)
	return p, nil
}

// Target does the same as Source. If several is set, the name of the place ends in a slash, because
// several files need a directory.
func (c *sftpServer) Target(ctx context.Context, l Location, several bool) (Place, error) {
	p, err := c.Source(ctx, l)
	if several {
		p = p.ofSeveral()
	}
	return p, err
}

// List lists a directory. It always includes details.
func (c *sftpServer) List(ctx context.Context, dir string, _ bool) ([]fs.DirEntry, error) {
	return c.ReadDir(ctx, dir)
}

// Open opens a file for reading.
func (c *sftpServer) Open(ctx context.Context, name string) (store.File, error) {
	f, err := c.Client.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Create begins an upload. The file appears once the upload is complete.
func (c *sftpServer) Create(ctx context.Context, name string, o store.Create) (store.Upload, error) {
	dir, base := ".", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dir, base = name[:max(i, 1)], name[i+1:]
	}
	return c.Store(dir).Create(ctx, base, o)
}

// OpenFile opens a file or a device for writing in place.
func (c *sftpServer) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	flag := os.O_RDONLY
	switch {
	case a.Read && a.Writes():
		flag = os.O_RDWR
	case a.Writes():
		flag = os.O_WRONLY
	}
	for bit, set := range map[int]bool{os.O_APPEND: a.Append, os.O_CREATE: a.Create, os.O_EXCL: a.Exclusive, os.O_TRUNC: a.Truncate} {
		if set {
			flag |= bit
		}
	}
	f, err := c.Client.OpenFile(ctx, name, flag, a.Perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Remove removes a file. It never removes a directory.
func (c *sftpServer) Remove(ctx context.Context, name string) error { return c.RemoveFile(ctx, name) }

// Rename renames a file. If `replace` is set, it replaces an existing file.
func (c *sftpServer) Rename(ctx context.Context, from, to string, replace bool) error {
	if replace {
		return c.Client.Rename(ctx, from, to)
	}
	return c.Client.Move(ctx, from, to)
}

// Capabilities returns the optional features of an SFTP server.
func (c *sftpServer) Capabilities() store.Capabilities {
	return store.Capabilities{MkdirAll: c.MkdirAll, RemoveAll: c.RemoveAll, OwnerNames: c.OwnerNames}
}

// adviseSSH adds advice for the user to a connection error.
func adviseSSH(err error, l Location, cfg *Config) error {
	if e, ok := errors.AsType[*openssh.HostKeyError](err); ok && e.Fault == openssh.Unknown {
		advice := "verify the fingerprint with the server's administrator, and "
		if errors.Is(err, openssh.ErrBatch) {
			advice += "run haul once on a terminal and without --batch, or "
		}
		return fmt.Errorf("%w; %saccept it by -o StrictHostKeyChecking=accept-new", err, advice)
	}
	if errors.Is(err, openssh.ErrAuth) {
		var advice []string
		if len(cfg.SSH.Identities) == 0 {
			advice = append(advice, "name a key by -i FILE")
		}
		login, ok := errors.AsType[*openssh.AuthError](err)
		keysOnly := ok && len(login.Allowed) == 1 && login.Allowed[0] == "publickey"
		if l.server.User == "" {
			advice = append(advice, "another user by USER@HOST")
		}
		switch {
		case cfg.PasswordFile != "", keysOnly:
		case cfg.Batch:
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
		if l.server.Port == 0 && cfg.SSH.Port == 0 {
			text += "; a port other than SSH's is given by -P, or in the URL"
		}
		return failure.Reword(text, err)
	}
	return err
}

// same reports whether two locations are on the same server and use the same account there.
func (d *sshDialer) same(ctx context.Context, a, b Location) (bool, error) {
	if len(d.cfg.SSH.Command) > 0 {
		return a.server == b.server, nil // as typed, because the program's configuration is not known
	}
	x, err := d.resolve(ctx, a)
	if err != nil {
		return false, err
	}
	y, err := d.resolve(ctx, b)
	direct := x.Jump == nil && y.Jump == nil && x.ProxyCommand == y.ProxyCommand
	return direct && x.User == y.User && strings.EqualFold(x.Host, y.Host) && x.Port == y.Port, err
}
