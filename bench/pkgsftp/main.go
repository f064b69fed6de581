// Pkgsftp is a program of the suite around the client and the server of the library
// github.com/pkg/sftp: see package sftpprog.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"os"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/bench/sftpprog"
)

func main() { sftpprog.Main("pkgsftp", library{}) }

type library struct{}

func (library) Dial(ctx context.Context, addr string, login *ssh.ClientConfig, o sftpprog.Options) (sftpprog.Client, error) {
	if o.Delay || o.Requests > 0 || o.RequestBytes > 0 {
		return nil, errors.New("-delay, -requests and -request-bytes are experiments with package sftp of haul")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c, channels, requests, err := ssh.NewClientConn(conn, addr, login)
	if err != nil {
		conn.Close()
		return nil, err
	}
	transport := ssh.NewClient(c, channels, requests)
	var options []sftp.ClientOption
	if o.ConcurrentWrites {
		options = append(options, sftp.UseConcurrentWrites(true))
	}
	session, err := sftp.NewClient(transport, options...)
	if err != nil {
		return nil, errors.Join(err, transport.Close())
	}
	return client{session, transport}, nil
}

// Serve uses the library's server that reads and writes files itself. The library's other server is
// for programs with their own storage.
func (library) Serve(ctx context.Context, l net.Listener, config *ssh.ServerConfig, dir string) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		go serve(conn, config, dir)
	}
}

// maxSessions is the largest number of sessions on one connection. sshd has the same limit.
const maxSessions = 10

func serve(conn net.Conn, config *ssh.ServerConfig, dir string) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		log.Print("pkgsftp: ", err)
		return
	}
	go ssh.DiscardRequests(requests)
	free := make(chan struct{}, maxSessions)
	for offer := range channels {
		select {
		case free <- struct{}{}:
		default:
			_ = offer.Reject(ssh.ResourceShortage, "too many sessions") // fails only if the connection has failed
			continue
		}
		go func() {
			defer func() { <-free }()
			session(offer, dir)
		}()
	}
}

func session(offer ssh.NewChannel, dir string) {
	if offer.ChannelType() != "session" {
		_ = offer.Reject(ssh.UnknownChannelType, "sessions only")
		return
	}
	channel, requests, err := offer.Accept()
	if err != nil {
		return // an error means that the connection has ended
	}
	defer channel.Close()
	go func() {
		for r := range requests {
			_ = r.Reply(r.Type == "subsystem" && len(r.Payload) > 4 && string(r.Payload[4:]) == "sftp", nil)
		}
	}()
	s, err := sftp.NewServer(channel, sftp.WithServerWorkingDirectory(dir))
	if err != nil {
		log.Print("pkgsftp: ", err)
		return
	}
	if err := s.Serve(); err != nil && !errors.Is(err, io.EOF) {
		log.Print("pkgsftp: ", err)
	}
}

type client struct {
	*sftp.Client
	transport *ssh.Client
}

func (c client) Close() error { return errors.Join(c.Client.Close(), c.transport.Close()) }

func (c client) Get(_ context.Context, remote string, to *os.File) error {
	f, err := c.Client.Open(remote)
	if err != nil {
		return err
	}
	_, err = f.WriteTo(to)
	return errors.Join(err, f.Close())
}

// Put uploads a file with requests that overlap. It always sets their number itself, and does not
// rely on an option of the client.
func (c client) Put(_ context.Context, from *os.File, remote string) error {
	f, err := c.Client.Create(remote)
	if err != nil {
		return err
	}
	_, err = f.ReadFromWithConcurrency(from, 0)
	return errors.Join(err, f.Close())
}

func (c client) Open(_ context.Context, remote string) (io.ReadCloser, error) {
	return c.Client.Open(remote)
}

func (c client) Create(_ context.Context, remote string) (io.WriteCloser, error) {
	return c.Client.Create(remote)
}
