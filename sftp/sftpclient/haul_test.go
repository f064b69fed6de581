package sftpclient

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/internal/sshconn"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/storetest"
)

// A haulHost runs haul's own server, for tests of the client.
type haulHost struct {
	server sftp.Server
	config *ssh.ClientConfig
	link   netLink

	ctx  context.Context
	stop context.CancelFunc
	wait sync.WaitGroup
}

func newHaulHost(t testing.TB, tree store.Tree, hidden bool) *haulHost {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(k.Marshal(), signer.PublicKey().Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	h := &haulHost{config: &ssh.ClientConfig{
		User: "me", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(signer.PublicKey()),
	}}
	h.server.SSH = func(context.Context, net.Conn) (*ssh.ServerConfig, error) { return config, nil }
	h.server.Login = func(context.Context, *ssh.ServerConn) (*sftp.Account, error) {
		return &sftp.Account{User: "me", Tree: tree, Hidden: hidden}, nil
	}
	h.server.IdleTimeout = -1
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// dial makes a connection over a path with latency.
func (h *haulHost) dial(ctx context.Context) (*ssh.Client, error) {
	time.Sleep(h.link.roundTrip()) // TCP's handshake
	k := h.link
	k.window = 64 << 20
	a, b := newNetStreams(&k)
	h.wait.Go(func() { h.server.ServeConn(h.ctx, sshconn.New(streamConn{b})) })
	return login(ctx, sshconn.New(streamConn{a}), "host:22", h.config)
}

// client returns a client, and a function that stops it.
func (h *haulHost) client(t testing.TB, config Config) (*Client, func()) {
	t.Helper()
	config.Connect = h.dial
	s, err := h.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(t.Context(), s, config)
	if err != nil {
		t.Fatal(err)
	}
	return c, func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		_ = s.Close()
		h.stop()
		h.wait.Wait()
	}
}

func openHaulTree(t testing.TB, kind string) store.Tree {
	if kind == "memory" {
		return store.Mem(1 << 30)
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return localdir.New(root)
}

func TestHaulToHaul(t *testing.T) {
	for _, kind := range []string{"memory", "directory"} {
		for _, hidden := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, " hidden ", hidden), func(t *testing.T) {
				h := newHaulHost(t, openHaulTree(t, kind), hidden)
				c, end := h.client(t, Config{})
				defer end()
				for i, size := range fileSizes {
					name, data := fmt.Sprint("f", size), pattern(size, byte(i))
					if err := uploadAll(t.Context(), c, name, data); err != nil {
						t.Errorf("put %d bytes: %v", size, err)
					}
					if err := fetchAndCompare(t.Context(), c, name, data); err != nil {
						t.Errorf("get %d bytes: %v", size, err)
					}
					f, err := c.Create(t.Context(), name)
					if err != nil {
						t.Fatal(err)
					}
					data = pattern(size, byte(i+100))
					if n, err := io.Copy(f, onlyReader{bytes.NewReader(data)}); n != int64(size) || err != nil {
						t.Errorf("io.Copy of %d bytes = %d, %v", size, n, err)
					}
					if err := f.Close(); err != nil {
						t.Error(err)
					}
					if err := fetchAndCompare(t.Context(), c, name, data); err != nil {
						t.Errorf("get %d bytes again: %v", size, err)
					}
				}
				if n, err := c.CopyFile(t.Context(), "f1", "copy"); n != 1 || err != nil {
					t.Errorf("CopyFile = %d, %v", n, err)
				}
			})
		}
	}
}

func TestHaulToHaulIsAStore(t *testing.T) {
	for _, kind := range []string{"memory", "directory"} {
		t.Run(kind, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.Store {
				h := newHaulHost(t, openHaulTree(t, kind), false)
				c, end := h.client(t, Config{})
				t.Cleanup(end)
				return c.Store("")
			})
		})
	}
}

func TestHaulToHaulIsAnFS(t *testing.T) {
	h := newHaulHost(t, openHaulTree(t, "memory"), false)
	c, end := h.client(t, Config{})
	defer end()
	for _, name := range []string{"a", "d/b", "d/e/c"} {
		if err := c.MkdirAll(t.Context(), "d/e", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := uploadAll(t.Context(), c, name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fstest.TestFS(c.FS(""), "a", "d/b", "d/e/c"); err != nil {
		t.Error(err)
	}
}

// The test counts all round trips, from dialing until a small file has arrived.
func TestHaulToHaulRoundTrips(t *testing.T) {
	for _, test := range []struct {
		name, first string
		most        float64
	}{
		{"name not known before", "", 11},
		{"name known", "f", 9},
		{"another name known", "g", 11},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tree := store.Mem(0)
				h := newHaulHost(t, tree, false)
				data := pattern(5000, 1)
				(&fakeServer{tree: tree}).put(t, "f", data)
				h.link.latency = tripTime / 2
				begin := time.Now()
				c, end := h.client(t, Config{First: test.first})
				if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
					t.Error(err)
				}
				took := float64(time.Since(begin)) / float64(tripTime)
				if took > test.most {
					t.Errorf("a small file took %.1f round trips from the beginning", took)
				}
				t.Logf("%.1f round trips", took)
				end()
			})
		})
	}
}

// Several channels have more throughput than one, on one connection and on four.
func TestHaulToHaulLongPath(t *testing.T) {
	size := int64(race.Fewer(300<<20, 3))
	synctest.Test(t, func(t *testing.T) {
		h := newHaulHost(t, newEndlessTree(size), false)
		h.link.latency = 50 * time.Millisecond
		c, end := h.client(t, Config{})
		f, err := c.Open(t.Context(), "void")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if n, err := f.FetchTo(t.Context(), nowhere{}, 0); n != size || err != nil {
			t.Errorf("FetchTo = %d, %v", n, err)
		}
		got := time.Since(begin)
		_ = f.Close()
		if f, err = c.Create(t.Context(), "void"); err != nil {
			t.Fatal(err)
		}
		begin = time.Now()
		if n, err := f.FillFrom(t.Context(), zeroSource{}, 0, size); n != size || err != nil {
			t.Errorf("FillFrom = %d, %v", n, err)
		}
		put := time.Since(begin)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		t.Logf("get %v, put %v, %+v", got, put, c.measure())
		// On one channel each direction would take 15 s, or 5 s with the smaller size.
		if got > 4*time.Second || put > 4*time.Second || c.measure().Conns != defaultConns {
			t.Errorf("get took %v, put %v, with %+v", got, put, c.measure())
		}
		end()
	})
}

// BenchmarkHaulToHaul uses the client and the server of this package over the loopback interface,
// with complete SSH.
func BenchmarkHaulToHaul(b *testing.B) {
	const n = 64 << 20
	for _, plain := range []bool{false, true} {
		for _, put := range []bool{false, true} {
			b.Run(fmt.Sprintf("put=%v/plain=%v", put, plain), func(b *testing.B) {
				h := newHaulHost(b, newEndlessTree(n), false)
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				h.wait.Go(func() { _ = h.server.Serve(h.ctx, l) })
				raw, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				if !plain {
					raw = sshconn.New(raw) // as Dial does
				}
				s, err := login(b.Context(), raw, l.Addr().String(), h.config)
				if err != nil {
					b.Fatal(err)
				}
				c, err := New(b.Context(), s, Config{})
				if err != nil {
					b.Fatal(err)
				}
				f, err := c.OpenFile(b.Context(), "void", os.O_RDWR|os.O_CREATE, 0o600)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(n)
				for b.Loop() {
					if put {
						_, err = f.FillFrom(b.Context(), zeroSource{}, 0, n)
					} else {
						_, err = f.FetchTo(b.Context(), nowhere{}, 0)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				_ = f.Close()
				_ = c.Close()
				_ = s.Close()
				h.stop()
				h.wait.Wait()
			})
		}
	}
}
