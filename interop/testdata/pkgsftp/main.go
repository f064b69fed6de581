// Pkgsftp is github.com/pkg/sftp as a peer of the interop tests: its client, and its server. It
// is a separate module, so that haul does not depend on it.
//
//	pkgsftp client < job     # the interface in interop/sftp_drivers_test.go
//	pkgsftp serve DIR HOSTKEY AUTHORIZED
package main

import (
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

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// A job is the content of standard input: the login, and the operations. Names are encoded in
// Latin-1: one character stands for one byte.
type job struct {
	Addr, User, Key, HostKey string
	Ops                      [][]string
}

type answer struct {
	Value any    `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
	Kind  string `json:"kind,omitempty"`
}

type attributes struct {
	Size  int64  `json:"size"`
	Mode  uint32 `json:"mode"`
	Mtime int64  `json:"mtime"`
}

func main() {
	err := errors.New("usage: pkgsftp client | serve DIR HOSTKEY AUTHORIZED")
	switch {
	case len(os.Args) == 2 && os.Args[1] == "client":
		err = client()
	case len(os.Args) == 5 && os.Args[1] == "serve":
		err = serve(os.Args[2], os.Args[3], os.Args[4])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client() error {
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		return err
	}
	host, _, _, _, err := ssh.ParseAuthorizedKey([]byte(j.HostKey))
	if err != nil {
		return err
	}
	pem, err := os.ReadFile(j.Key)
	if err != nil {
		return err
	}
	key, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		return err
	}
	conn, err := ssh.Dial("tcp", j.Addr, &ssh.ClientConfig{
		User: j.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(host),
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	c, err := sftp.NewClient(conn, sftp.UseConcurrentWrites(true))
	if err != nil {
		return err
	}
	defer c.Close()
	out := json.NewEncoder(os.Stdout)
	for _, op := range j.Ops {
		value, err := do(c, op[0], raw(op[1:]))
		a := answer{Value: value}
		if err != nil {
			a = answer{Error: err.Error(), Kind: kind(err)}
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return nil
}

func kind(err error) string {
	var status *sftp.StatusError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "not exist"
	case errors.Is(err, fs.ErrPermission):
		return "permission"
	case errors.Is(err, errors.ErrUnsupported), errors.As(err, &status) && status.FxCode() == sftp.ErrSSHFxOpUnsupported:
		return "unsupported"
	}
	return ""
}

func do(c *sftp.Client, op string, a []string) (any, error) {
	number := func(i, base int) int64 {
		n, err := strconv.ParseInt(a[i], base, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	switch op {
	case "get":
		return nil, get(c, a[0], a[1], false)
	case "reget":
		return nil, get(c, a[0], a[1], true)
	case "put":
		return nil, put(c, a[0], a[1], os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	case "reput":
		return nil, put(c, a[0], a[1], os.O_WRONLY)
	case "mkdir":
		return nil, c.Mkdir(a[0])
	case "rmdir":
		return nil, c.RemoveDirectory(a[0])
	case "remove":
		return nil, c.Remove(a[0])
	case "removeall":
		return nil, c.RemoveAll(a[0])
	case "move":
		return nil, c.Rename(a[0], a[1])
	case "rename":
		return nil, c.PosixRename(a[0], a[1])
	case "symlink":
		return nil, c.Symlink(a[0], a[1])
	case "link":
		return nil, c.Link(a[0], a[1])
	case "readlink":
		s, err := c.ReadLink(a[0])
		return latin(s), err
	case "realpath":
		s, err := c.RealPath(a[0])
		return latin(s), err
	case "stat":
		return describe(c.Stat(a[0]))
	case "lstat":
		return describe(c.Lstat(a[0]))
	case "list":
		entries, err := c.ReadDir(a[0])
		names := []string{}
		for _, e := range entries {
			names = append(names, latin(e.Name()))
		}
		slices.Sort(names)
		return names, err
	case "chmod":
		return nil, c.Chmod(a[0], fs.FileMode(number(1, 8)))
	case "utime":
		when := time.Unix(number(1, 10), 0)
		return nil, c.Chtimes(a[0], when, when)
	case "truncate":
		return nil, c.Truncate(a[0], number(1, 10))
	case "statvfs":
		s, err := c.StatVFS(a[0])
		if err != nil {
			return nil, err
		}
		return map[string]uint64{"total": s.TotalSpace(), "free": s.FreeSpace()}, nil
	case "read":
		f, err := c.Open(a[0])
		if err != nil {
			return nil, err
		}
		defer f.Close()
		b := make([]byte, number(2, 10))
		n, err := f.ReadAt(b, number(1, 10))
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return hex.EncodeToString(b[:n]), err
	case "write":
		b, err := hex.DecodeString(a[2])
		if err != nil {
			return nil, err
		}
		f, err := c.OpenFile(a[0], os.O_WRONLY)
		if err != nil {
			return nil, err
		}
		_, err = f.WriteAt(b, number(1, 10))
		return nil, errors.Join(err, f.Close())
	}
	return nil, fmt.Errorf("%w: operation %s", errors.ErrUnsupported, op)
}

func get(c *sftp.Client, remote, local string, resume bool) error {
	f, err := c.Open(remote)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := os.OpenFile(local, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	if resume {
		var n int64
		if n, err = w.Seek(0, io.SeekEnd); err == nil {
			_, err = f.Seek(n, io.SeekStart)
		}
	}
	if err == nil {
		_, err = f.WriteTo(w)
	}
	return errors.Join(err, w.Close())
}

func put(c *sftp.Client, local, remote string, flag int) error {
	r, err := os.Open(local)
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := c.OpenFile(remote, flag)
	if err != nil {
		return err
	}
	if flag&os.O_TRUNC == 0 {
		var n int64
		if n, err = f.Seek(0, io.SeekEnd); err == nil {
			_, err = r.Seek(n, io.SeekStart)
		}
	}
	if err == nil {
		_, err = f.ReadFrom(r)
	}
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
