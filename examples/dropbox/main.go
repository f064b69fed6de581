// Dropbox receives files by SFTP, and calls a function for each file that has arrived completely. A
// user may add files and nothing else. A file is invisible until it is closed, and is discarded if
// its connection is lost. So other programs that read the directory find only complete files.
//
//	go run ./examples/dropbox DIR KEYS 127.0.0.1:2022
//
// The host key is in the directory KEYS, which is not served. The program prints the password, and
// the fingerprint of the host key.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/users"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: dropbox DIR KEYS HOST:PORT")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	complete := func(name string, size int64) { log.Printf("%q has arrived, %d bytes", name, size) }
	if err := serve(ctx, os.Args[1], os.Args[2], os.Args[3], complete, announce); err != nil {
		log.Fatal(err)
	}
}

func announce(addr, password string, key ssh.PublicKey) {
	fmt.Printf("sftp on %s, user %s, password %s, host key %s\n", addr, users.OneTimeUser, password, ssh.FingerprintSHA256(key))
}

// serve runs the server until ctx is cancelled. It calls complete for each file that has arrived
// completely. Several connections may call complete at the same time, and a connection waits until
// the call returns. So slow work should run in another goroutine.
func serve(ctx context.Context, dir, keys, addr string, complete func(name string, size int64), listening func(addr, password string, key ssh.PublicKey)) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	files := localdir.New(root)
	hostKeys, err := users.HostKeys(keys)
	if err != nil {
		return err
	}
	// This example has one user with a generated password. A program with several users would load
	// a users file with users.Open.
	allowed, password, err := users.OneTime(users.UploadOnly)
	if err != nil {
		return err
	}
	server := &sftp.Server{
		SSH: func(context.Context, net.Conn) (*ssh.ServerConfig, error) {
			c := &ssh.ServerConfig{}
			for _, k := range hostKeys {
				c.AddHostKey(k.Signer)
			}
			allowed.Configure(c, users.Options{})
			return c, nil
		},
		Login: func(_ context.Context, c *ssh.ServerConn) (*sftp.Account, error) {
			l, ok := users.LoginOf(c.Permissions)
			if !ok {
				return nil, errors.New("no user has logged in")
			}
			return &sftp.Account{User: l.User.Name, Tree: files, Access: l.Access, Hidden: true}, nil
		},
		Ended: func(t *sftp.Transfer) {
			if t.Write && t.Err == nil { // the file is published and safe on the disk
				complete(t.Name, t.Received())
			}
		},
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	listening(l.Addr().String(), password, hostKeys[0].Signer.PublicKey())
	return server.Serve(ctx, l)
}
