package tcpprog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

func ExampleResponder_Answer() {
	r, err := NewResponder(Options{Size: 5, Close: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	var scratch []byte
	fmt.Println(strings.ReplaceAll(string(r.Answer(&scratch)), "\r", ""))
	// Output:
	// HTTP/1.1 200 OK
	// Content-Length: 5
	// Connection: close
	//
	// abcde
}

// A server sends the answers that its clients expect, and nothing else.
func TestAnswers(t *testing.T) {
	for _, o := range []Options{
		{Size: 1}, {Size: 1024}, {Size: 1024, Close: true}, {Size: 16 << 10},
		{Size: 1, Encrypted: true}, {Size: 15, Encrypted: true}, {Size: 16, Encrypted: true}, {Size: 1024, Encrypted: true, Close: true},
	} {
		r, err := NewResponder(o)
		if err != nil {
			t.Fatal(err)
		}
		var scratch []byte
		answer := bytes.Clone(r.Answer(&scratch))
		right := Client{Size: o.Size, Close: o.Close, Encrypted: o.Encrypted}
		read := func(c Client, answer []byte) error { return c.Read(bufio.NewReader(bytes.NewReader(answer))) }
		if err := read(right, answer); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
		if again := r.Answer(&scratch); o.Encrypted == bytes.Equal(again, answer) {
			t.Errorf("%+v: the second answer is the same: %t", o, !o.Encrypted)
		}
		body := r.Body(&scratch)
		if !o.Encrypted && !bytes.Equal(body, Body(o.Size)) || o.Encrypted && len(body)%16 != 0 {
			t.Errorf("%+v: the body has %d bytes", o, len(body))
		}
		for name, c := range map[string]Client{
			"size":       {Size: o.Size + 1, Close: o.Close, Encrypted: o.Encrypted},
			"close":      {Size: o.Size, Close: !o.Close, Encrypted: o.Encrypted},
			"encryption": {Size: o.Size, Close: o.Close, Encrypted: !o.Encrypted},
		} {
			if err := read(c, answer); !errors.Is(err, ErrWrong) {
				t.Errorf("%+v: with another %s: %v", o, name, err)
			}
		}
		answer[len(answer)-1] ^= 1
		if err := read(right, answer); !errors.Is(err, ErrWrong) {
			t.Errorf("%+v: with a bit flipped: %v", o, err)
		}
		if err := read(right, answer[:len(answer)-1]); err == nil {
			t.Errorf("%+v: cut short, and no error", o)
		}
	}
}

func TestRequestEnd(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "GET / HTTP/1.1\r\n": 0, "GET / HTTP/1.1\r\n\r": 0, "GET / HTTP/1.1\r\n\r\n": 18, "a\r\n\r\nb\r\n\r\n": 5,
	} {
		if got := RequestEnd([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// A handler serves until the client ends, and so does one that waits.
func TestServe(t *testing.T) {
	r, err := NewResponder(Options{Size: 100})
	if err != nil {
		t.Fatal(err)
	}
	waits := 0
	for name, serve := range map[string]func(net.Conn){
		"at once": r.Serve,
		"waiting": func(c net.Conn) {
			r.ServeWaiting(c, func() error {
				waits++
				if waits > 3 {
					return io.EOF
				}
				return nil
			})
		},
	} {
		client, server := net.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer server.Close()
			serve(server)
		}()
		c, in := Client{Size: 100}, bufio.NewReader(client)
		for range 3 {
			go func() { _, _ = client.Write(c.Request()) }() // a pipe has no buffer
			if err := c.Read(in); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		client.Close()
		<-ended
	}
	if waits != 4 {
		t.Errorf("it waited %d times, want 4", waits)
	}
}

// A request without an end is not read for ever.
func TestServeEndlessRequest(t *testing.T) {
	r, err := NewResponder(Options{Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		r.Serve(server)
	}()
	n, err := client.Write(make([]byte, 10*MaxRequest))
	if err == nil || n != MaxRequest {
		t.Errorf("it read %d bytes, %v; want %d", n, err, MaxRequest)
	}
}

func TestRunRefuses(t *testing.T) {
	none := func(context.Context, Options) error { return nil }
	for _, args := range [][]string{{"-size", "0"}, {"-size", "1000000000"}, {"-no-such-flag"}} {
		if Run(t.Context(), "test", args, none) == nil {
			t.Errorf("%v: no error", args)
		}
	}
	o := Options{Dir: "d", Cert: "c", Defer: true}
	for _, c := range []struct {
		files, tls, deferred bool
		want                 error
	}{{true, true, true, nil}, {false, true, true, ErrNoFiles}, {true, false, true, ErrNoTLS}, {true, true, false, ErrNoDefer}} {
		if err := o.Only(c.files, c.tls, c.deferred); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	o = Options{Cert: "none", Key: "none"}
	if _, err := o.TLS(); err == nil || !strings.Contains(err.Error(), "-cert") {
		t.Errorf("a certificate that is not there: %v", err)
	}
}
