package privilege

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// site creates the directories for a confinement: read, write and outside, with a file f in each.
func site(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"read/sub", "write/a", "write/b", "outside", "tree/sub", "logs"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"read/f", "read/sub/f", "write/a/f", "outside/f", "logs/old", "certificate"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("content"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func confinement(dir string) Confinement {
	return Confinement{
		Read:  []string{dir + "/read", dir + "/certificate", "/proc/self"},
		Write: []string{dir + "/write"},
		Trees: []string{dir + "/tree"},
		Logs:  []string{dir + "/logs/log"},
	}
}

func TestConfine(t *testing.T) {
	run(t, order{Child: "confine", Dir: site(t)}, nil)
}

func confineChild(o order) error {
	abi, abiErr := ll.LandlockGetABIVersion()
	before, err := openBefore(o.Dir)
	if err != nil {
		return err
	}
	defer before.close()
	what, err := Confine(confinement(o.Dir))
	if err != nil {
		return err
	}
	if abiErr != nil {
		// Nothing more can be tested here; the rules have a test of their own.
		if !strings.HasPrefix(what, "Landlock not available") {
			return fmt.Errorf("%q on a kernel without Landlock", what)
		}
		return nil
	}
	if want := fmt.Sprintf("Landlock ABI %d: files", abi); !strings.HasPrefix(what, want) {
		return fmt.Errorf("%q, want %q", what, want)
	}
	if err := before.check(o.Dir); err != nil {
		return fmt.Errorf("what was open before: %w", err)
	}
	if err := attempts(o.Dir, abi); err != nil {
		return err
	}
	// A thread that is created after the confinement.
	fromNewThread := make(chan error)
	go func() {
		runtime.LockOSThread()
		fromNewThread <- attempts(o.Dir, abi)
	}()
	return <-fromNewThread
}

// opened holds the things that a server has open when it is confined.
type opened struct {
	read, write, outside *os.Root
	listener             net.Listener
	client               net.Conn // to listener, not yet accepted
	udp                  net.PacketConn
}

func openBefore(dir string) (o opened, err error) {
	for name, root := range map[string]**os.Root{"read": &o.read, "write": &o.write, "outside": &o.outside} {
		if *root, err = os.OpenRoot(filepath.Join(dir, name)); err != nil {
			return o, err
		}
	}
	if o.listener, err = plainTCP().Listen(context.Background(), "tcp4", "127.0.0.1:0"); err != nil {
		return o, err
	}
	if o.client, err = dial(o.listener.Addr().String()); err != nil {
		return o, err
	}
	o.udp, err = net.ListenPacket("udp4", "127.0.0.1:0")
	return o, err
}

// plainTCP disables Multipath TCP, which Landlock does not cover.
func plainTCP() *net.ListenConfig {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	return &lc
}

func dial(address string) (net.Conn, error) {
	var d net.Dialer
	d.SetMultipathTCP(false)
	return d.Dial("tcp4", address)
}

func (o *opened) close() {
	for _, r := range []*os.Root{o.read, o.write, o.outside} {
		r.Close()
	}
	o.client.Close()
	o.listener.Close()
	o.udp.Close()
}

// check uses the files and sockets that were open before. They still work, but no os.Root allows
// more access than the rules do.
func (o *opened) check(dir string) error {
	if b, err := o.read.ReadFile("sub/f"); err != nil || string(b) != "content" {
		return fmt.Errorf("read below a root: %q, %w", b, err)
	}
	if _, err := o.outside.ReadFile("f"); !errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("read below a root that no rule names: %v, want EACCES", err)
	}
	if err := upload(o.write, "a", "new"); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	if b, err := os.ReadFile(dir + "/write/a/new"); err != nil || string(b) != "content" {
		return fmt.Errorf("the upload: %q, %w", b, err)
	}
	if err := upload(o.read, "sub", "new"); !errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("upload to a directory for reading: %v, want EACCES", err)
	}
	c, err := o.listener.Accept()
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	c.Close()
	to := o.udp.LocalAddr()
	if _, err := o.udp.WriteTo([]byte("x"), to); err != nil {
		return fmt.Errorf("send a datagram: %w", err)
	}
	return nil
}

// upload makes the same calls on root as package store makes for an upload, in the same order.
func upload(root *os.Root, dir, name string) error {
	d, err := root.OpenRoot("./" + dir + "/.")
	if err != nil {
		return err
	}
	defer d.Close()
	const temp = ".temporary"
	f, err := d.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, step := range []func() error{
		func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) },
		func() error {
			if err := unix.Fallocate(int(f.Fd()), 0, 0, 4096); !errors.Is(err, unix.EOPNOTSUPP) {
				return err
			}
			return nil
		},
		func() error { _, err := f.WriteAt([]byte("contents"), 0); return err },
		func() error { return f.Truncate(7) },
		func() error { return f.Chmod(0o644) },
		f.Sync,
		func() error { return d.Link(temp, name) }, // as for a name that must be new
		func() error { return d.Remove(name) },
		func() error { return d.Rename(temp, name) }, // as for a name that may be replaced
		func() error {
			s, err := d.Open(".")
			if err != nil {
				return err
			}
			defer s.Close()
			return s.Sync()
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// An attempt is an action to try while confined.
type attempt struct {
	name string
	want error // nil: it works
	abi  int   // the first ABI that forbids it
	do   func() error
}

// attempts tries everything. It leaves the directories unchanged.
func attempts(dir string, abi int) error {
	path := func(name string) string { return filepath.Join(dir, name) }
	read := func(name string) func() error {
		return func() error { _, err := os.ReadFile(name); return err }
	}
	move := func(from, to string) func() error {
		return func() error { return os.Rename(path(from), path(to)) }
	}
	open := func(name string, flag int) func() error {
		return func() error {
			f, err := os.OpenFile(path(name), flag, 0o600)
			if err == nil {
				f.Close()
			}
			return err
		}
	}
	all := []attempt{
		{"read", nil, 1, read(path("read/sub/f"))},
		{"read by way of ..", nil, 1, read(dir + "/outside/../read/f")},
		{"read a single file", nil, 1, read(path("certificate"))},
		{"list", nil, 1, func() error { _, err := os.ReadDir(path("read")); return err }},
		{"read of oneself", nil, 1, read("/proc/self/stat")},
		{"read outside", syscall.EACCES, 1, read(path("outside/f"))},
		{"read outside by way of /proc", syscall.EACCES, 1, read("/proc/self/root" + path("outside/f"))},
		{"read the system", syscall.EACCES, 1, read("/etc/passwd")},
		{"list outside", syscall.EACCES, 1, func() error { _, err := os.ReadDir(dir); return err }},
		{"write what is for reading", syscall.EACCES, 1, open("read/f", os.O_WRONLY)},
		{"create what is for reading", syscall.EACCES, 1, open("read/new", os.O_WRONLY|os.O_CREATE|os.O_EXCL)},
		{"create outside", syscall.EACCES, 1, open("outside/new", os.O_WRONLY|os.O_CREATE|os.O_EXCL)},
		{"remove what is for reading", syscall.EACCES, 1, func() error { return os.Remove(path("read/f")) }},
		{"truncate what is for reading", syscall.EACCES, 3, func() error { return os.Truncate(path("read/f"), 0) }},
		{"run a program", syscall.EACCES, 1, func() error { return exec.Command("/proc/self/exe").Run() }},
		{"make a symbolic link", syscall.EACCES, 1, func() error { return os.Symlink("f", path("write/link")) }},
		{"make a symbolic link in a tree", nil, 1, func() error { return os.Symlink("../../outside/f", path("tree/sub/link")) }},
		{"read what it leads to", syscall.EACCES, 1, read(path("tree/sub/link"))},
		{"remove the symbolic link", nil, 1, func() error { return os.Remove(path("tree/sub/link")) }},
		{"make a pipe in a tree", syscall.EACCES, 1, func() error { return unix.Mkfifo(path("tree/pipe"), 0o600) }},
		{"make a pipe", syscall.EACCES, 1, func() error { return unix.Mkfifo(path("write/pipe"), 0o600) }},
		{"make a directory", nil, 1, func() error { return os.Mkdir(path("write/c"), 0o755) }},
		{"remove it", nil, 1, func() error { return os.Remove(path("write/c")) }},
		{"move to where there are fewer rights", syscall.EACCES, 2, move("write/a/f", "read/f2")},
		{"move to where there are no rights", syscall.EACCES, 2, move("write/a/f", "outside/f2")},
		{"move in from outside", syscall.EACCES, 2, move("outside/f", "write/a/f2")},
		{"begin a log", nil, 1, open("logs/log", os.O_WRONLY|os.O_APPEND|os.O_CREATE)},
		{"read in the directory of a log", syscall.EACCES, 1, read(path("logs/old"))},
		{"list the directory of a log", syscall.EACCES, 1, func() error { _, err := os.ReadDir(path("logs")); return err }},
		{"remove in the directory of a log", syscall.EACCES, 1, func() error { return os.Remove(path("logs/old")) }},
		{"rename in the directory of a log", syscall.EACCES, 1, move("logs/old", "logs/new")},
		{"make a directory in that of a log", syscall.EACCES, 1, func() error { return os.Mkdir(path("logs/sub"), 0o700) }},
		{"make a link in the directory of a log", syscall.EACCES, 1, func() error { return os.Symlink("old", path("logs/link")) }},
		{"bind a TCP port", syscall.EACCES, networkABI, func() error {
			l, err := plainTCP().Listen(context.Background(), "tcp4", "127.0.0.1:0")
			if err == nil {
				l.Close()
			}
			return err
		}},
		{"connect by TCP", syscall.EACCES, networkABI, func() error {
			c, err := dial("127.0.0.1:9")
			if err == nil {
				c.Close()
			}
			return err
		}},
		{"open a UDP socket", nil, 1, func() error {
			c, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err == nil {
				c.Close()
			}
			return err
		}},
	}
	if abi >= moveABI {
		all = append(all,
			attempt{"move between directories", nil, 1, move("write/a/f", "write/b/f")},
			attempt{"and back", nil, 1, move("write/b/f", "write/a/f")},
			attempt{"link between directories", nil, 1, func() error { return os.Link(path("write/a/f"), path("write/b/link")) }},
			attempt{"link into a tree", syscall.EXDEV, 1, func() error { return os.Link(path("read/f"), path("tree/f")) }},
			attempt{"remove the link", nil, 1, func() error { return os.Remove(path("write/b/link")) }},
		)
	}
	for _, a := range all {
		if a.abi > abi {
			continue
		}
		if err := a.do(); !errors.Is(err, a.want) {
			return fmt.Errorf("%s: %v, want %v", a.name, err, a.want)
		}
	}
	return nil
}

// Root confines itself to a directory that its later user cannot reach, and still serves it.
func TestConfineThenDrop(t *testing.T) {
	needRoot(t)
	dir := site(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir+"/write/a", 4711, 4712); err != nil {
		t.Fatal(err)
	}
	run(t, order{Child: "both", Dir: dir, User: "4711:4712"}, nil)
}

func bothChild(o order) error {
	u, err := LookUp(o.User)
	if err != nil {
		return err
	}
	before, err := openBefore(o.Dir)
	if err != nil {
		return err
	}
	defer before.close()
	if _, err := Confine(confinement(o.Dir)); err != nil {
		return err
	}
	if err := Drop(u); err != nil {
		return err
	}
	if _, err := before.read.ReadFile("sub/f"); err != nil {
		return err
	}
	if err := upload(before.write, "a", "new"); err != nil {
		return err
	}
	if err := upload(before.write, "b", "new"); !errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("upload to root's directory: %v, want EACCES", err)
	}
	if _, err := os.ReadFile(o.Dir + "/read/f"); !errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("walking through root's directory: %v, want EACCES", err)
	}
	return nil
}

// A server with an upstream may connect to the upstream's port and to a unix socket that it names,
// but to no other port.
func TestConfineConnect(t *testing.T) {
	run(t, order{Child: "connect", Dir: site(t)}, nil)
}

func connectChild(o order) error {
	abi, _ := ll.LandlockGetABIVersion()
	var ports []uint16
	for range 2 {
		l, err := plainTCP().Listen(context.Background(), "tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).AddrPort().Port())
	}
	agent, err := net.Listen("unix", filepath.Join(o.Dir, "agent"))
	if err != nil {
		return err
	}
	defer agent.Close()
	c := confinement(o.Dir)
	c.Connect, c.Sockets = ports[:1], []string{agent.Addr().String()}
	if _, err := Confine(c); err != nil {
		return err
	}
	for i, want := range []error{nil, syscall.EACCES} {
		conn, err := dial(fmt.Sprintf("127.0.0.1:%d", ports[i]))
		if conn != nil {
			conn.Close()
		}
		if abi >= networkABI && !errors.Is(err, want) {
			return fmt.Errorf("connect to port %d of 2: %w, want %w", i+1, err, want)
		}
	}
	conn, err := net.Dial("unix", agent.Addr().String())
	if err != nil {
		return err
	}
	return conn.Close()
}

// Without Landlock the server still runs, and can report this. A filter that hides the system call
// simulates an older kernel.
func TestConfineUnavailable(t *testing.T) {
	run(t, order{Child: "unavailable", Dir: site(t)}, nil)
}

func unavailableChild(o order) error {
	if err := hideLandlock(); err != nil {
		return err
	}
	what, err := Confine(confinement(o.Dir))
	if err != nil || !strings.HasPrefix(what, "Landlock not available: the kernel has none") {
		return fmt.Errorf("%q, %w", what, err)
	}
	_, err = os.ReadFile(o.Dir + "/outside/f")
	return err
}

// hideLandlock answers landlock_create_ruleset with ENOSYS, for all threads.
func hideLandlock() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number, first in struct seccomp_data
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(syscall.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	return installFilter(filter)
}

func TestConfinePathErrors(t *testing.T) {
	dir := site(t)
	for _, c := range []struct {
		name string
		c    Confinement
		want error
		says string
	}{
		{"missing to read", Confinement{Read: []string{dir + "/missing"}}, fs.ErrNotExist, "missing"},
		{"missing to write", Confinement{Write: []string{dir + "/missing"}}, fs.ErrNotExist, "missing"},
		{"missing tree", Confinement{Trees: []string{dir + "/missing"}}, fs.ErrNotExist, "missing"},
		{"missing socket", Confinement{Sockets: []string{dir + "/missing"}}, fs.ErrNotExist, "missing"},
		{"file to write", Confinement{Write: []string{dir + "/certificate"}}, nil, "only whole directories"},
	} {
		rules, err := rulesFor(c.c, 7)
		if err == nil || !strings.Contains(err.Error(), c.says) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: rules %v, %v; want an error with %q", c.name, rules, err, c.says)
		}
	}
}

// This tests the rules as far as any kernel allows.
func TestRules(t *testing.T) {
	dir := site(t)
	for _, c := range []struct {
		name string
		c    Confinement
		abi  int
		want []string
	}{
		{"nothing", Confinement{}, 7, nil},
		{"read", Confinement{Read: []string{dir + "/read", dir + "/certificate"}}, 7, []string{
			"REQUIRE {read_file,read_dir} for paths [" + dir + "/read]",
			"REQUIRE {read_file} for paths [" + dir + "/certificate]",
		}},
		{"write", Confinement{Write: []string{dir + "/write"}}, 7, []string{
			"REQUIRE {write_file,read_file,read_dir,remove_dir,remove_file,make_dir,make_reg,refer,truncate} for paths [" + dir + "/write]",
		}},
		{"write, first ABI", Confinement{Write: []string{dir + "/write"}}, 1, []string{
			"REQUIRE {write_file,read_file,read_dir,remove_dir,remove_file,make_dir,make_reg,truncate} for paths [" + dir + "/write]",
		}},
		{"tree", Confinement{Trees: []string{dir + "/tree"}}, 7, []string{
			"REQUIRE {write_file,read_file,read_dir,remove_dir,remove_file,make_dir,make_reg,make_sym,refer,truncate} for paths [" + dir + "/tree]",
		}},
		{"a log", Confinement{Logs: []string{dir + "/write/log"}}, 7, []string{
			"REQUIRE {write_file,make_reg,truncate} for paths [" + dir + "/write]",
		}},
		{"a port and a socket", Confinement{Connect: []uint16{443}, Sockets: []string{dir + "/certificate"}}, 9, []string{
			"REQUIRE {resolve_unix} for paths [" + dir + "/certificate]",
			"ALLOW {connect_tcp} on port 443",
		}},
	} {
		rules, err := rulesFor(c.c, c.abi)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, r := range rules {
			got = append(got, fmt.Sprint(r))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Beside returns the files that the server's user may write to, except the log's own, and the
// directories that the user may search.
func TestBeside(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	for _, f := range []struct {
		name     string
		uid, gid int
		perm     fs.FileMode
	}{
		{"audit.jsonl", 4711, 0, 0o600}, {"audit.jsonl.1", 4711, 0, 0o600}, {"audit-20260102.jsonl", 4711, 0, 0o600}, {"audit.jsonl-20260102.gz", 4711, 0, 0o600},
		{"syslog", 0, 0, 0o640}, {"own", 4711, 0, 0o600}, {"own-read-only", 4711, 0, 0o400}, {"group", 0, 4712, 0o660}, {"group-read-only", 0, 4712, 0o646},
		{"supplementary", 0, 4713, 0o620}, {"everybody", 0, 0, 0o602},
	} {
		path := filepath.Join(dir, f.name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, f.uid, f.gid), os.Chmod(path, f.perm)); err != nil {
			t.Fatal(err)
		}
	}
	for name, perm := range map[string]fs.FileMode{"open": 0o711, "closed": 0o700} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, perm)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Beside(filepath.Join(dir, "audit.jsonl"), &User{UID: 4711, GID: 4712, Groups: []int{4713}})
	slices.Sort(got)
	if want := []string{"everybody", "group", "open/", "own", "supplementary"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if got, err := Beside(filepath.Join(dir, "audit.jsonl"), nil); err != nil || len(got) != 9 {
		t.Errorf("root may write to %q, %v, want 9 files and directories", got, err)
	}
}

// On a kernel whose Landlock would break users' own trees, it is not used.
func TestTooOld(t *testing.T) {
	trees, none := Confinement{Trees: []string{"/srv"}}, Confinement{Write: []string{"/srv"}}
	if !tooOld(trees, 1) || tooOld(trees, 2) || tooOld(none, 1) {
		t.Error("only the first ABI is too old, and only for trees")
	}
}

// This test lists everything that may break a server, so that a new version of the library cannot
// add to it unnoticed.
func TestRestricted(t *testing.T) {
	const want = "{Landlock V9; FS: all; Net: all; Scoped: {abstract_unix_socket} (best effort)}"
	if got := restricted.String(); got != want {
		t.Errorf("restricted is %s, want %s", got, want)
	}
	for abi, want := range map[int]string{1: "Landlock ABI 1: files", 3: "Landlock ABI 3: files", 4: "Landlock ABI 4: files, TCP", 12: "Landlock ABI 12: files, TCP"} {
		if got := describe(abi); got != want {
			t.Errorf("describe(%d) = %q, want %q", abi, got, want)
		}
	}
}
