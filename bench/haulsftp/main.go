// Haulsftp is a program of the suite around the client and the server of haul's package sftp: see
// package sftpprog.
package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/bench/sftpprog"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store/localdir"
)

func main() { sftpprog.Main("haulsftp", library{}) }

type library struct{}

func (library) Dial(ctx context.Context, addr string, login *ssh.ClientConfig, o sftpprog.Options) (sftpprog.Client, error) {
	if o.ConcurrentWrites {
		return nil, errors.New("-concurrent-writes: package sftp has no such thing, all its writes overlap")
	}
	c, err := sftpclient.Dial(ctx, addr, login, sftpclient.Config{Delay: o.Delay, Requests: o.Requests, RequestBytes: o.RequestBytes})
	if err != nil {
		return nil, err
	}
	return client{c}, nil
}

func (library) Serve(ctx context.Context, l net.Listener, config *ssh.ServerConfig, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	s := &sftp.Server{
		SSH: func(context.Context, net.Conn) (*ssh.ServerConfig, error) { return config, nil },
		Login: func(context.Context, *ssh.ServerConn) (*sftp.Account, error) {
			return &sftp.Account{Tree: localdir.New(root)}, nil
		},
	}
	return s.Serve(ctx, l)
}

type client struct{ *sftpclient.Client }

func (c client) Get(ctx context.Context, remote string, to *os.File) error {
	f, err := c.Client.Open(ctx, remote)
	if err != nil {
		return err
	}
	_, err = f.FetchTo(ctx, to, 0)
	return errors.Join(err, f.Close())
}

func (c client) Put(ctx context.Context, from *os.File, remote string) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	f, err := c.Client.Create(ctx, remote)
	if err != nil {
		return err
	}
	_, err = f.FillFrom(ctx, from, 0, info.Size())
	return errors.Join(err, f.Close())
}

func (c client) Open(ctx context.Context, remote string) (io.ReadCloser, error) {
	return c.Client.Open(ctx, remote)
}

func (c client) Create(ctx context.Context, remote string) (io.WriteCloser, error) {
	return c.Client.Create(ctx, remote)
}
