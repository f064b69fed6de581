// Package tcpprogtest tests programs of the suite that serve TCP.
package tcpprogtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/tcpprog"
)

// patience limits the duration of each step of a test.
const patience = 20 * time.Second

// A Serve is the function that a program passes to tcpprog.Main.
type Serve func(context.Context, tcpprog.Options) error

// Test makes a server send each kind of answer that the suite requests, and then stop. The server
// must refuse options that it does not support.
func Test(t *testing.T, serve Serve, does peer.Trade, more ...string) {
	cert, key := certificate(t)
	for _, c := range []struct {
		name      string
		client    tcpprog.Client
		arguments []string
	}{
		{"closed", tcpprog.Client{Size: 1024, Close: true}, nil},
		{"kept", tcpprog.Client{Size: 1024}, nil},
		{"closed, large", tcpprog.Client{Size: 16 << 10, Close: true}, nil},
		{"closed, encrypted", tcpprog.Client{Size: 1024, Encrypted: true, Close: true}, nil},
		{"kept, encrypted", tcpprog.Client{Size: 1000, Encrypted: true}, nil},
		{"kept, delayed", tcpprog.Client{Size: 128}, []string{"-delay", "1ms"}},
		{"closed, TLS", tcpprog.Client{Size: 1024, TLS: true, Close: true}, []string{"-cert", cert, "-key", key}},
		{"kept, TLS", tcpprog.Client{Size: 1024, TLS: true}, []string{"-cert", cert, "-key", key}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"-size", fmt.Sprint(c.client.Size)}, append(c.arguments, more...)...)
			if c.client.Close {
				args = append(args, "-close")
			}
			if c.client.Encrypted {
				args = append(args, "-encrypted")
			}
			if c.client.TLS && !does.TLS {
				if err := tcpprog.Run(t.Context(), "test", args, serve); !errors.Is(err, tcpprog.ErrNoTLS) {
					t.Errorf("it has no TLS, and with a certificate it says: %v", err)
				}
				return
			}
			c.client.Addr = start(t, serve, args)
			testAnswers(t, c.client)
		})
	}
	t.Run("files", func(t *testing.T) {
		testFiles(t, serve, does, append([]string{"-cert", cert, "-key", key}, more...), cert)
	})
}

func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	cert, key, err := peer.NewCert(t.TempDir(), peer.Loopback)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// start runs a server until the test ends, and returns its address.
func start(t *testing.T, serve Serve, args []string) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// Close the listener, so that the server can use its port. The server cannot listen at port 0,
	// because there is no way to ask it for the port that it got.
	addr := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- tcpprog.Run(ctx, "test", append([]string{"-listen", addr}, args...), serve) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, net.ErrClosed) {
				t.Logf("it ended with: %v", err) // some libraries return an error when they are stopped
			}
		case <-time.After(patience):
			t.Error("it does not end")
		}
	})
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("it ended at once: %v", err)
		default:
		}
		c, err := net.Dial("tcp4", addr)
		if err == nil {
			c.Close()
			return addr
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatal(err)
		}
	}
	t.Fatal("it does not listen")
	return ""
}

// testAnswers makes several requests on each of several connections.
func testAnswers(t *testing.T, c tcpprog.Client) {
	const conns, requests = 3, 3
	for range conns {
		conn, err := c.Dial(t.Context(), patience)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		r := bufio.NewReader(conn)
		for i := range requests {
			// Every second request is sent in two parts.
			request := c.Request()
			half := len(request) / (1 + i%2)
			for _, part := range [][]byte{request[:half], request[half:]} {
				if len(part) == 0 {
					continue
				}
				if _, err := conn.Write(part); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Read(r); err != nil {
				t.Fatalf("request %d: %v", i, err)
			}
			if !c.Close {
				continue
			}
			if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("behind the answer comes no end: %v", err)
			}
			break
		}
	}
}

// testFiles fetches a file over TLS.
func testFiles(t *testing.T, serve Serve, does peer.Trade, args []string, cert string) {
	dir := t.TempDir()
	args = append(args, "-dir", dir)
	if !does.Files {
		if err := tcpprog.Run(t.Context(), "test", args, serve); !errors.Is(err, tcpprog.ErrNoFiles) {
			t.Errorf("it serves no files, and asked for them it says: %v", err)
		}
		return
	}
	want := bytes.Repeat([]byte("file"), 100_000)
	if err := os.WriteFile(filepath.Join(dir, "f"), want, 0o644); err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: known}}
	defer transport.CloseIdleConnections()
	client := http.Client{Timeout: patience, Transport: transport}
	answer, err := client.Get("https://" + start(t, serve, args) + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v; want the %d of the file", len(got), err, len(want))
	}
}
