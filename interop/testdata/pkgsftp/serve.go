package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// serve serves a directory to users with the one key in the file authorized, and prints its
// address to standard output.
func serve(dir, hostKey, authorized string) error {
	pem, err := os.ReadFile(hostKey)
	if err != nil {
		return err
	}
	host, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		return err
	}
	line, err := os.ReadFile(authorized)
	if err != nil {
		return err
	}
	allowed, _, _, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return err
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(k.Marshal(), allowed.Marshal()) {
			return nil, errors.New("not the key that is allowed")
		}
		return nil, nil
	}}
	config.AddHostKey(host)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go session(c, config, dir)
	}
}

func session(c net.Conn, config *ssh.ServerConfig, dir string) {
	defer c.Close()
	_, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	go ssh.DiscardRequests(requests)
	for n := range channels {
		if n.ChannelType() != "session" {
			_ = n.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		ch, requests, err := n.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				ok := r.Type == "subsystem" && string(r.Payload[4:]) == "sftp"
				_ = r.Reply(ok, nil)
				if !ok {
					continue
				}
				go func() {
					defer ch.Close()
					s, err := sftp.NewServer(ch, sftp.WithServerWorkingDirectory(dir))
					if err == nil {
						err = s.Serve()
					}
					if err != nil {
						fmt.Fprintln(os.Stderr, err)
					}
				}()
			}
		}()
	}
}
