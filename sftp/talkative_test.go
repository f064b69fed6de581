package sftp

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// Before the login, the server accepts only little data of any kind.
func TestTalkative(t *testing.T) {
	tests := map[string]func(s *rawSSH) error{
		"no end of a line": func(s *rawSSH) error {
			_, err := io.WriteString(s.nc, strings.Repeat("x", 1<<20))
			return err
		},
		"lines before a version": func(s *rawSSH) error {
			_, err := io.WriteString(s.nc, strings.Repeat("welcome\r\n", 100_000))
			return err
		},
		"ignored messages": func(s *rawSSH) error {
			if err := rawKeys(s); err != nil {
				return err
			}
			return s.writeMany(1000, message(msgIgnore, bytes.Repeat([]byte("x"), 30<<10)))
		},
		"key exchanges": func(s *rawSSH) error {
			if err := rawKeys(s); err != nil {
				return err
			}
			// The server's answer to this shows that it has finished the first exchange.
			if err := s.write(message(msgServiceRequest, "ssh-userauth")); err != nil {
				return err
			}
			if _, err := s.wait(msgServiceAccept); err != nil {
				return err
			}
			for range 10_000 {
				if err := s.rekey(); err != nil {
					return err
				}
			}
			return nil
		},
		"long logins": func(s *rawSSH) error {
			if err := rawKeys(s); err != nil {
				return err
			}
			if err := s.write(message(msgServiceRequest, "ssh-userauth")); err != nil {
				return err
			}
			name := strings.Repeat("x", 200<<10)
			return s.writeMany(1000, message(msgUserauth, name, "ssh-connection", "none"))
		},
	}
	for name, talk := range tests {
		t.Run(name, func(t *testing.T) {
			w := newTestServer(t, nil)
			before := heap()
			s := newRawSSH(w.connect("192.0.2.1"))
			if err := talk(s); err == nil {
				_, err = io.Copy(io.Discard, s.nc)
				if err != nil {
					t.Error(err)
				}
			}
			e := w.last(1)
			if e.Account != nil || e.Err == nil {
				t.Errorf("it ended by %v", e.Err)
			}
			if wrote := s.nc.(*wireEnd).out.wrote; wrote > 3<<20 { // of these, the wire itself holds 1 MiB
				t.Errorf("%d bytes were sent before it ended by %v", wrote, e.Err)
			}
			if grown := heap() - before; grown > 3<<20 {
				t.Errorf("it takes %d bytes", grown)
			}
			if c := w.server.Counters(); c.Failures != 1 || c.Panics != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// writeMany sends a message repeatedly.
func (s *rawSSH) writeMany(n int, payload []byte) error {
	for range n {
		if err := s.write(payload); err != nil {
			return err
		}
	}
	return nil
}
