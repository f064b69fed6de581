// Hauldriver performs operations for the interop tests with package sftp. See
// interop/sftp_drivers_test.go for the interface of all drivers.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
	"golang.org/x/crypto/ssh"
)

// A job is the content of standard input: the login, and the operations. Names are encoded in
// Latin-1: one character stands for one byte.
type job struct {
	Addr, User, Key, Cert, HostKey, Password string
	Conns, Sessions                          int
	Ops                                      [][]string
}

// An answer is the result of an operation; standard output has one on each line.
type answer struct {
	Value any    `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
	Kind  string `json:"kind,omitempty"`
}

type attributes struct {
	Size  int64  `json:"size"`
	Mode  uint32 `json:"mode"` // in the format of st_mode
	Mtime int64  `json:"mtime"`
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		return err
	}
	login, err := j.login()
	if err != nil {
		return err
	}
	c, err := sftpclient.Dial(ctx, j.Addr, login, sftpclient.Config{Conns: j.Conns, Sessions: j.Sessions})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for _, op := range j.Ops {
		value, err := do(ctx, c, op[0], raw(op[1:]))
		a := answer{Value: value}
		if err != nil {
			a = answer{Error: err.Error(), Kind: kind(err)}
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return c.Close()
}

func (j *job) login() (*ssh.ClientConfig, error) {
	host, _, _, _, err := ssh.ParseAuthorizedKey([]byte(j.HostKey))
	if err != nil {
		return nil, err
	}
	c := &ssh.ClientConfig{User: j.User, HostKeyCallback: ssh.FixedHostKey(host)}
	if j.Password != "" {
		c.Auth = append(c.Auth, ssh.Password(j.Password))
		return c, nil
	}
	pem, err := os.ReadFile(j.Key)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		return nil, err
	}
	if j.Cert != "" {
		line, err := os.ReadFile(j.Cert)
		if err != nil {
			return nil, err
		}
		k, _, _, _, err := ssh.ParseAuthorizedKey(line)
		if err != nil {
			return nil, err
		}
		cert, ok := k.(*ssh.Certificate)
		if !ok {
			return nil, fmt.Errorf("%s holds no certificate", j.Cert)
		}
		if signer, err = ssh.NewCertSigner(cert, signer); err != nil {
			return nil, err
		}
	}
	c.Auth = append(c.Auth, ssh.PublicKeys(signer))
	return c, nil
}

// kind returns the tests' name for the standard error that err wraps, or "" if it wraps none of
// them.
func kind(err error) string {
	for _, k := range []struct {
		err  error
		name string
	}{
		{fs.ErrNotExist, "not exist"}, {fs.ErrExist, "exist"}, {fs.ErrPermission, "permission"},
		{errors.ErrUnsupported, "unsupported"}, {fs.ErrInvalid, "invalid"}, {sftpclient.ErrConnectionLost, "lost"},
	} {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return ""
}

// do performs one operation.
func do(ctx context.Context, c *sftpclient.Client, op string, a []string) (any, error) {
	number := func(i, base int) int64 {
		n, err := strconv.ParseInt(a[i], base, 64)
		if err != nil {
			panic(err) // a mistake in the tests
		}
		return n
	}
	switch op {
	case "get":
		return nil, get(ctx, c, a[0], a[1], 0)
	case "reget":
		fi, err := os.Stat(a[1])
		if err != nil {
			return nil, err
		}
		return nil, get(ctx, c, a[0], a[1], fi.Size())
	case "put":
		return nil, put(ctx, c, a[0], a[1], os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0)
	case "reput":
		fi, err := c.Stat(ctx, a[1])
		if err != nil {
			return nil, err
		}
		return nil, put(ctx, c, a[0], a[1], os.O_WRONLY, fi.Size())
	case "publish":
		return nil, publish(ctx, c, a[0], a[1])
	case "mkdir":
		return nil, c.Mkdir(ctx, a[0], 0o755)
	case "rmdir":
		return nil, c.RemoveDir(ctx, a[0])
	case "remove":
		return nil, c.RemoveFile(ctx, a[0])
	case "removeall":
		return nil, c.RemoveAll(ctx, a[0])
	case "move":
		return nil, c.Move(ctx, a[0], a[1])
	case "rename":
		return nil, c.Rename(ctx, a[0], a[1])
	case "symlink":
		return nil, c.Symlink(ctx, a[0], a[1])
	case "link":
		return nil, c.Link(ctx, a[0], a[1])
	case "copy":
		return c.CopyFile(ctx, a[0], a[1])
	case "readlink":
		s, err := c.Readlink(ctx, a[0])
		return latin(s), err
	case "realpath":
		s, err := c.RealPath(ctx, a[0])
		return latin(s), err
	case "stat":
		return describe(c.Stat(ctx, a[0]))
	case "lstat":
		return describe(c.Lstat(ctx, a[0]))
	case "list":
		return list(ctx, c, a[0])
	case "chmod":
		return nil, c.Chmod(ctx, a[0], fs.FileMode(number(1, 8)))
	case "utime":
		when := time.Unix(number(1, 10), 0)
		return nil, c.SetAttr(ctx, a[0], store.Attr{AccessTime: when, ModTime: when}, true)
	case "truncate":
		size := number(1, 10)
		return nil, c.SetAttr(ctx, a[0], store.Attr{Size: &size}, true)
	case "statvfs":
		s, err := c.Space(ctx, a[0])
		return map[string]int64{"total": s.Total, "free": s.Free}, err
	case "read":
		return read(ctx, c, a[0], number(1, 10), int(number(2, 10)))
	case "write":
		return nil, write(ctx, c, a[0], number(1, 10), a[2])
	}
	return nil, fmt.Errorf("%w: operation %s", errors.ErrUnsupported, op)
}

func get(ctx context.Context, c *sftpclient.Client, remote, local string, from int64) error {
	f, err := c.Open(ctx, remote)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := os.OpenFile(local, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	n, err := f.FetchTo(ctx, w, from)
	// Drop the data after a gap, so that the next attempt does not build on it.
	return errors.Join(err, w.Truncate(from+n), w.Close())
}

func put(ctx context.Context, c *sftpclient.Client, local, remote string, flag int, from int64) error {
	r, err := os.Open(local)
	if err != nil {
		return err
	}
	defer r.Close()
	fi, err := r.Stat()
	if err != nil {
		return err
	}
	f, err := c.OpenFile(ctx, remote, flag, 0o644)
	if err != nil {
		return err
	}
	_, err = f.FillFrom(ctx, r, from, fi.Size()-from)
	return errors.Join(err, f.Close())
}

// publish uploads a file through the client's store, so the file has its name only when it is
// complete.
func publish(ctx context.Context, c *sftpclient.Client, local, remote string) error {
	b, err := os.ReadFile(local)
	if err != nil {
		return err
	}
	u, err := c.Store("").Create(ctx, remote, store.Create{Size: int64(len(b))})
	if err != nil {
		return err
	}
	defer u.Close()
	if _, err := u.WriteAt(b, 0); err != nil {
		return err
	}
	return u.Commit()
}

func read(ctx context.Context, c *sftpclient.Client, name string, off int64, n int) (any, error) {
	f, err := c.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	got, err := f.ReadAt(b, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return hex.EncodeToString(b[:got]), err
}

func write(ctx context.Context, c *sftpclient.Client, name string, off int64, data string) error {
	b, err := hex.DecodeString(data)
	if err != nil {
		return err
	}
	f, err := c.OpenFile(ctx, name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, off)
	return errors.Join(err, f.Close())
}

func describe(fi fs.FileInfo, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	mode := uint32(fi.Mode().Perm())
	switch fi.Mode().Type() {
	case 0:
		mode |= syscall.S_IFREG
	case fs.ModeDir:
		mode |= syscall.S_IFDIR
	case fs.ModeSymlink:
		mode |= syscall.S_IFLNK
	}
	return attributes{fi.Size(), mode, fi.ModTime().Unix()}, nil
}

func list(ctx context.Context, c *sftpclient.Client, dir string) (any, error) {
	entries, err := c.ReadDir(ctx, dir)
	names := []string{}
	for _, e := range entries {
		names = append(names, latin(e.Name()))
	}
	slices.Sort(names)
	return names, err
}

// latin replaces each byte with a character of its own, and raw reverses that.
func latin(s string) string {
	r := make([]rune, len(s))
	for i := range len(s) {
		r[i] = rune(s[i])
	}
	return string(r)
}

func raw(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		var b strings.Builder
		for _, r := range s {
			b.WriteByte(byte(r))
		}
		out[i] = b.String()
	}
	return out
}
