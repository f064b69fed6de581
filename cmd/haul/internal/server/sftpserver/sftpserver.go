// Package sftpserver implements "haul sftp-server": one SFTP session on standard input and output,
// for a user whom another program has authenticated, with the options of OpenSSH's sftp-server(8).
package sftpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/users"
)

// A Config holds the options of the command.
type Config struct {
	// Root is the directory that the client sees as /. It may contain the tokens of expand; ""
	// means the whole machine.
	Root string
	// Start is the initial directory. It may contain the same tokens as Root; "" means Root or, if
	// Root is not set either, the working directory.
	Start    string
	ReadOnly bool     // refuse all requests that change something
	Allow    []string // the only requests to accept; nil means all requests
	Deny     []string // requests to refuse
	Umask    Umask    // umask of new files and directories
	InPlace  bool     // show uploads under their final names while they arrive
	NoFsync  bool     // publish uploads without waiting for the disk
	Level    Level    // level of the messages to log
	Facility Facility // syslog facility of the messages
	Stderr   bool     // log to standard error in place of syslog

	syslog string // the socket of the syslog, for tests; "" means the syslog of this machine
}

// Run serves one session on in and out, until ctx ends or the client ends the session. A session
// that the client ends is not an error.
func Run(ctx context.Context, c Config, in, out *os.File, stderr io.Writer) error {
	self, err := user.Current()
	if err != nil {
		return failure.Local.Errorf("finding out whose session this is: %w", err)
	}
	refused, err := c.refused()
	if err != nil {
		return err
	}
	if err := c.Umask.set(); err != nil {
		return err
	}
	if !c.Stderr {
		stderr = nil
	}
	log := newLog(c.Level, c.Facility, c.syslog, stderr)
	defer log.close()
	a := &sftp.Account{User: self.Username, Refused: refused, Hidden: !c.InPlace}
	if c.ReadOnly {
		a.Access = users.ReadOnly
	}
	closeFiles, err := c.open(a, self, log)
	if err != nil {
		log.printf(levelFatal, "%v", err)
		return err
	}
	defer closeFiles()
	// Umask -1 means that the server uses the umask of the process, which is set already.
	s := &sftp.Server{IdleTimeout: -1, Umask: -1, Owner: ownerName}
	log.observe(s, self.Username)
	in, out, err = openStdio(in, out)
	if err != nil {
		return failure.Local.Errorf("opening standard input and output: %w", err)
	}
	return s.ServeSession(ctx, stdio{in, out}, a)
}

// Requests returns the names of the requests that Allow and Deny can name.
func Requests() []string { return sftp.Requests() }

// hashing maps a request to the hash requests that reveal the same data. For example, the hash of a
// one-byte range reveals the byte. If the request is denied, its hash requests are denied too. A
// list of denied requests that was written for OpenSSH's server cannot contain them, because only
// haul supports them.
var hashing = map[string][]string{
	"open": {"check-file-name"},
	"read": {"check-file", "check-file-handle", "check-file-name"},
}

// refused returns the names of the requests to refuse, according to Allow and Deny.
func (c *Config) refused() ([]string, error) {
	all := Requests()
	for flag, names := range map[string][]string{"-p": c.Allow, "-P": c.Deny} {
		for _, name := range names {
			if !slices.Contains(all, name) {
				return nil, failure.Usage.Errorf("%s %q: there is no such request; -Q requests lists them", flag, name)
			}
		}
	}
	refused := slices.Clone(c.Deny)
	for _, name := range c.Deny {
		refused = append(refused, hashing[name]...)
	}
	if c.Allow != nil {
		for _, name := range all {
			if !slices.Contains(c.Allow, name) {
				refused = append(refused, name)
			}
		}
	}
	return refused, nil
}

// open opens the files for an account, and sets the account's files and initial directory. It
// returns a function that closes the files.
func (c *Config) open(a *sftp.Account, self *user.User, log *log) (closeFiles func(), err error) {
	root, err := expand(c.Root, self)
	if err != nil {
		return nil, failure.Usage.Errorf("--root %s: %w", c.Root, err)
	}
	start, err := expand(c.Start, self)
	if err != nil {
		return nil, failure.Usage.Errorf("-d %s: %w", c.Start, err)
	}
	closeFiles = func() {}
	var files *localdir.Dir
	switch {
	case root != "":
		r, err := os.OpenRoot(root)
		if err != nil {
			return nil, failure.Local.Errorf("--root %s: %w", root, err)
		}
		closeFiles = func() { _ = r.Close() }
		files = localdir.New(r)
		files.Path, files.LinksFromRoot, files.SpecialBits, files.Native = root, true, true, true
		start = path.Clean("/" + start)
	case runtime.GOOS == "windows":
		return nil, failure.Usage.Errorf("sftp-server: --root DIR is missing: on Windows there is no directory above all others")
	default:
		files = localdir.Machine()
		a.Home, a.Resolve = homeOf, resolve
		if start, err = filepath.Abs(start); err != nil {
			return nil, failure.Local.Errorf("finding out the working directory: %w", err)
		}
	}
	files.NoSync = c.NoFsync
	a.Tree, a.Dir = files, start
	if fi, err := files.Stat(context.Background(), nameOf(start)); err != nil || !fi.IsDir() {
		if err == nil {
			err = errors.New("not a directory")
		}
		log.printf(levelError, "the session cannot begin in %q: %v", start, err)
		if a.Dir = "/"; root == "" {
			a.Dir, _ = os.Getwd()
		}
	}
	return closeFiles, nil
}

// nameOf converts an absolute path to the name of the same file in a store of the whole machine.
func nameOf(p string) string {
	if p = strings.TrimPrefix(p, "/"); p == "" {
		return "."
	}
	return p
}

// resolve implements [sftp.Account].Resolve for an account that sees the whole machine.
func resolve(p string) (string, error) {
	full, err := filepath.EvalSymlinks(p)
	if !errors.Is(err, fs.ErrNotExist) {
		return full, err
	}
	above, base := path.Split(strings.TrimRight(p, "/"))
	if base == "." || base == ".." || base == "" {
		return "", err
	}
	if above, err = filepath.EvalSymlinks(above); err != nil {
		return "", err
	}
	return filepath.Join(above, base), nil
}

// homeOf returns the home directory of a user of this machine.
func homeOf(name string) (string, bool) {
	u, err := user.Lookup(name)
	if err != nil {
		return "", false
	}
	return u.HomeDir, true
}

// ownerName returns the name of the user or group of this machine with this ID, or "" if there is
// no name for it.
func ownerName(id uint32, group bool) string {
	text := strconv.FormatUint(uint64(id), 10)
	if group {
		if g, err := user.LookupGroupId(text); err == nil {
			return g.Name
		}
		return ""
	}
	if u, err := user.LookupId(text); err == nil {
		return u.Username
	}
	return ""
}

// expand replaces the tokens in a path in the same way as sftp-server(8): %d stands for the user's
// home directory, %u for the user's name, and %% for %.
func expand(text string, self *user.User) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "%")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		switch {
		case strings.HasPrefix(after, "%"):
			b.WriteByte('%')
		case strings.HasPrefix(after, "d"):
			b.WriteString(self.HomeDir)
		case strings.HasPrefix(after, "u"):
			b.WriteString(self.Username)
		default:
			return "", fmt.Errorf("unknown token %q; there are %%d (home directory), %%u (user) and %%%%", "%"+after[:min(len(after), 1)])
		}
		text = after[1:]
	}
}

// stdio combines standard input and output into one stream.
type stdio struct{ in, out *os.File }

func (s stdio) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s stdio) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s stdio) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }
