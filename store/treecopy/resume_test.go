package treecopy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/treecopy"
)

var continued = treecopy.Options{Recursive: true, Continue: true, PreserveTimes: true, Fatal: isLost}

func isLost(err error) bool { return errors.Is(err, sftpclient.ErrConnectionLost) }

// Cut off anywhere, a download resumes where it was, and is what it should be.
func TestDownloadCutOff(t *testing.T) {
	data := pattern(6<<20+123, 1)
	resumedMost := int64(0)
	for cut := int64(30_000); cut < int64(len(data))+200_000; cut += 700_001 {
		served, _ := dirTree(t)
		put(t, served, "d/large", data)
		put(t, served, "d/small", data[:1000])
		to, dir := dirTree(t)
		h := newHost(t, served, false)
		// In spite of all losses it is there in the end.
		var resumed int64
		var err error
		for try := range 5 {
			at := cut
			if try == 3 {
				at = 0
			}
			c := h.dial(t, 0, at, 0)
			var r treecopy.Result
			r, _, err = copyAll(t.Context(), c.Store("/"), to, ".", continued, "d")
			resumed += r.Resumed
			_ = c.Close()
			if err == nil {
				break
			}
			if !isLost(err) {
				t.Errorf("cut after %d bytes: %v", at, err)
			}
			if _, err := to.Stat(t.Context(), "d/large"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("cut after %d bytes, something has the name: %v", at, err)
			}
		}
		h.end()
		if err != nil {
			t.Errorf("cut after %d bytes: %v", cut, err)
		}
		resumedMost = max(resumedMost, resumed)
		wantSame(t, contents(t, served, true), contents(t, to, true))
		wantNothingLeft(t, dir)
	}
	if resumedMost < 4<<20 {
		t.Errorf("no more than %d bytes were ever left", resumedMost)
	}
}

// An upload as well. Its record says after each 32 MiB how much of a file is there; to
// keep more, the connection would have to be there.
func TestUploadCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, hidden := range []bool{false, true} {
		for _, cut := range []int64{100_000, 3 << 20, 44 << 20} {
			t.Run(fmt.Sprint(hidden, " ", cut), func(t *testing.T) {
				size := 2 << 20
				if cut > int64(size) {
					size = int(cut) + 6<<20
				}
				data := pattern(size, 1)
				from, _ := dirTree(t)
				put(t, from, "d/large", data)
				served, dir := dirTree(t)
				h := newHost(t, served, hidden)
				defer h.end()
				c := h.dial(t, 0, 0, cut)
				if _, _, err := copyAll(t.Context(), from, c.Store("/"), ".", continued, "d"); !isLost(err) {
					t.Errorf("error %v", err)
				}
				_ = c.Close()
				if _, err := served.Stat(t.Context(), "d/large"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("something has the name: %v", err)
				}
				c = h.dial(t, 0, 0, 0)
				defer c.Close()
				there := recorded(t, c)
				r, _, err := copyAll(t.Context(), from, c.Store("/"), ".", continued, "d")
				if err != nil {
					t.Error(err)
				}
				if there != (r.Resumed >= 32<<20) || there && cut < 32<<20 {
					t.Errorf("%d bytes were left of %d, with a record: %v", r.Resumed, cut, there)
				}
				wantSame(t, contents(t, from, true), contents(t, served, true))
				wantNothingLeft(t, dir)
			})
		}
	}
}

// stopAfter returns a context that ends when so many bytes have moved, and hooks
// that end it.
func stopAfter(t *testing.T, n int64) (context.Context, treecopy.Hooks) {
	ctx, stop := context.WithCancel(t.Context())
	s := newSeen()
	var moved int64
	return ctx, treecopy.Hooks{Progress: func(_ *treecopy.Item, some int64) {
		s.do(func() {
			if moved += some; moved >= n {
				stop()
			}
		})
	}}
}

// Only the same content is resumed: the source's size and time, and its last bytes,
// have to be the same.
func TestContinue(t *testing.T) {
	data := pattern(8<<20, 1)
	then := time.Unix(1_000_000_000, 0)
	for _, kind := range []string{"local", "download", "upload"} {
		t.Run(kind, func(t *testing.T) {
			local, dir := dirTree(t)
			served, servedDir := dirTree(t)
			from, to := store.Tree(local), store.Tree(served)
			switch kind {
			case "download":
				from = remoteTree(t, local, false)
			case "upload":
				to = remoteTree(t, served, true)
			}
			interrupt := func() {
				put(t, local, "f", data)
				setTime(t, local, "f", then)
				if err := served.Remove(t.Context(), "f"); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				ctx, hooks := stopAfter(t, 4<<20)
				j := treecopy.Job{Sources: []treecopy.Source{{Tree: from, Name: "f"}}, To: to, Options: continued, Hooks: hooks}
				if _, err := treecopy.Copy(ctx, j); !errors.Is(err, context.Canceled) {
					t.Fatalf("interrupted: %v", err)
				}
				if _, err := served.Stat(t.Context(), "f"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("something has the name: %v", err)
				}
			}
			resume := func(want bool) {
				t.Helper()
				r, s, err := copyAll(t.Context(), from, to, ".", continued, "f")
				if err != nil {
					t.Fatal(err)
				}
				if (r.Resumed > 0) != want || s.outcomes["f"].Resumed != r.Resumed {
					t.Errorf("%d bytes resumed, want some: %v", r.Resumed, want)
				}
				if size := int64(len(get(t, local, "f"))); s.bytes["f"] != size || r.Bytes+r.Resumed != size {
					t.Errorf("%d bytes were reported, and the result is %+v", s.bytes["f"], r)
				}
				wantBytes(t, served, "f", get(t, local, "f"))
				wantNothingLeft(t, servedDir)
			}
			interrupt()
			resume(true)

			interrupt() // another time
			setTime(t, local, "f", then.Add(time.Second))
			resume(false)

			interrupt() // another size
			put(t, local, "f", data[:7<<20])
			setTime(t, local, "f", then)
			resume(false)

			interrupt() // other bytes, of the same size and time
			other := bytes.Clone(data)
			for i := 0; i < len(other); i += 100_000 {
				other[i]++
			}
			put(t, local, "f", other)
			setTime(t, local, "f", then)
			resume(false)

			interrupt() // not to be continued
			o := continued
			o.Continue = false
			if r, _, err := copyAll(t.Context(), from, to, ".", o, "f"); err != nil || r.Resumed != 0 {
				t.Errorf("%+v, %v", r, err)
			}
			wantBytes(t, served, "f", data)
			_ = dir
		})
	}
}

// Written in place, what is there has to be the same from its first byte on.
func TestContinueInPlace(t *testing.T) {
	data := pattern(3<<20, 1)
	for _, gap := range []bool{false, true} {
		from, to := store.Mem(0), store.Mem(0)
		put(t, from, "f", data)
		part := bytes.Clone(data[:2<<20])
		if gap {
			clear(part[1000:2000])
		}
		put(t, to, "f", part)
		r, _, err := copyAll(t.Context(), from, to, ".", treecopy.Options{Continue: true, InPlace: true}, "f")
		if err != nil || (r.Resumed == 2<<20) == gap || gap && r.Resumed != 0 {
			t.Errorf("gap %v: %+v, %v", gap, r, err)
		}
		wantBytes(t, to, "f", data)
	}
}

// childEnv makes a process the one that is killed.
const childEnv = "HAUL_TREECOPY_CHILD"

// A process that is killed leaves files that the next one resumes, whichever way the
// files went.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if arg := os.Getenv(childEnv); arg != "" {
		killedChild(t, arg)
		return
	}
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot be killed like that there")
	}
	data := pattern(52<<20, 1)
	for _, way := range []string{"download", "upload", "hidden upload"} {
		t.Run(way, func(t *testing.T) {
			local, localDir := dirTree(t)
			served, servedDir := dirTree(t)
			from, to := store.Tree(served), store.Tree(local)
			if way != "download" {
				from, to = local, served
			}
			put(t, from, "d/large", data)
			for i := range 50 {
				put(t, from, fmt.Sprint("d/small ", i), data[i:10_000])
			}
			h := newHost(t, served, way == "hidden upload")
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			h.wait.Go(func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					h.wait.Go(func() { h.server.ServeConn(h.ctx, conn) })
				}
			})
			defer h.end()
			defer l.Close()
			var resumed int64
			for range 3 {
				resumed += killOne(t, way, l.Addr().String(), localDir)
				for name := range contents(t, to, false) {
					if strings.Contains(name, "large") {
						t.Fatalf("%s is there", name)
					}
					if strings.Contains(name, "small") {
						wantBytes(t, to, name, get(t, from, name))
					}
				}
			}
			c := dialTCP(t, l.Addr().String(), sftpclient.Config{})
			defer c.Close()
			use, target := c.Store("/"), store.Tree(local)
			if way != "download" {
				use, target = target, use
			}
			o := continued
			o.Verify = true
			r, s, err := copyAll(t.Context(), use, target, ".", o, "d")
			if err != nil {
				t.Error(err)
			}
			if r.Resumed+resumed == 0 {
				t.Errorf("nothing was left: %v", s.outcomes["d/large"])
			}
			wantSame(t, contents(t, from, true), contents(t, to, true))
			wantNothingLeft(t, localDir)
			wantNothingLeft(t, servedDir)
		})
	}
}

// killOne starts a process that copies, and kills it when it has copied some. It
// returns how many bytes that had been there.
func killOne(t *testing.T, way, addr, dir string) (resumed int64) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestKilled$", "-test.v")
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{way, addr, dir}, "\t"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	alive, err := cmd.StdinPipe() // it closes when this process ends, whatever ends it
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var log []string
	killed := false
	for lines.Scan() {
		line := lines.Text()
		log = append(log, line)
		var n int64
		if _, err := fmt.Sscanf(line, "there were %d", &n); err == nil {
			resumed = n
		}
		if strings.HasPrefix(line, "enough") {
			killed = true
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || !killed {
		t.Fatalf("it was not killed: %v\n%s", err, strings.Join(log, "\n"))
	}
	return resumed
}

// killedChild copies, and waits to be killed in the middle of the large file.
func killedChild(t *testing.T, arg string) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the parent is gone
	}()
	args := strings.Split(arg, "\t")
	// No more than this is sent ahead of what is kept.
	c := dialTCP(t, args[1], sftpclient.Config{Memory: 4 << 20})
	root, err := os.OpenRoot(args[2])
	if err != nil {
		t.Fatal(err)
	}
	from, to := c.Store("/"), store.Tree(localdir.New(root))
	if args[0] != "download" {
		from, to = to, from
	}
	// The kept size is written down after each 16 MiB here, and 32 MiB there.
	enough := int64(20 << 20)
	if args[0] != "download" {
		enough = 36 << 20
	}
	var small sync.WaitGroup
	small.Add(50)
	var moved, resumed int64 // of the one large file
	o := continued
	j := treecopy.Job{Sources: []treecopy.Source{{Tree: from, Name: "d"}}, To: to, Options: o, Hooks: treecopy.Hooks{
		Ended: func(i *treecopy.Item, _ treecopy.Outcome) {
			if strings.Contains(i.From, "small") {
				small.Done()
			}
		},
		Progress: func(i *treecopy.Item, n int64) {
			switch {
			case strings.Contains(i.From, "small"):
				return
			case moved == 0 && n > 1<<20: // at once: from an earlier copy
				fmt.Println("there were", n)
				resumed = n
				return
			}
			moved += n
			if moved < 4<<20 || moved+resumed < enough || args[0] != "download" && !recorded(t, c) {
				return
			}
			small.Wait() // or something of theirs may be left
			fmt.Println("enough")
			select {}
		},
	}}
	_, err = treecopy.Copy(t.Context(), j)
	t.Fatalf("it came to its end: %v", err)
}

// recorded reports whether the server has a record that something is there.
func recorded(t *testing.T, c *sftpclient.Client) bool {
	list, err := c.ReadDir(t.Context(), "/d")
	if err != nil {
		t.Error(err)
	}
	for _, e := range list {
		if !strings.HasSuffix(e.Name(), ".record") {
			continue
		}
		f, err := c.Open(t.Context(), "/d/"+e.Name())
		if err != nil {
			continue // it is being replaced
		}
		b := make([]byte, 512)
		n, _ := f.ReadAt(b, 0)
		_ = f.Close()
		if strings.Count(string(b[:n]), " whole=") > strings.Count(string(b[:n]), " whole=0 ") {
			return true
		}
	}
	return false
}

func dialTCP(t *testing.T, addr string, config sftpclient.Config) *sftpclient.Client {
	t.Helper()
	c, err := sftpclient.Dial(t.Context(), addr, &ssh.ClientConfig{User: "me", HostKeyCallback: ssh.InsecureIgnoreHostKey()}, config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
