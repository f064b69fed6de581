package sftp_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/users"
)

// Serve one directory to the users that the program knows.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Mkdir(dir+"/files", 0o755); err != nil {
		log.Fatal(err)
	}
	root, err := os.OpenRoot(dir + "/files")
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	hostKeys, err := users.HostKeys(dir + "/keys") // outside the served directory
	if err != nil {
		log.Fatal(err)
	}
	who, password, err := users.OneTime(users.Full)
	if err != nil {
		log.Fatal(err)
	}

	files := localdir.New(root)
	server := &sftp.Server{
		SSH: func(context.Context, net.Conn) (*ssh.ServerConfig, error) {
			c := &ssh.ServerConfig{}
			for _, k := range hostKeys {
				c.AddHostKey(k.Signer)
			}
			who.Configure(c, users.Options{})
			return c, nil
		},
		Login: func(_ context.Context, c *ssh.ServerConn) (*sftp.Account, error) {
			l, ok := users.LoginOf(c.Permissions)
			if !ok {
				return nil, errors.New("no user has logged in")
			}
			return &sftp.Account{User: l.User.Name, Tree: files, Dir: l.Dir, Access: l.Access}, nil
		},
		Connected: func(c *sftp.Conn) { fmt.Println(c.User, "is here") },
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx, l) }()

	c, err := ssh.Dial("tcp", l.Addr().String(), &ssh.ClientConfig{
		User:            users.OneTimeUser,
		Auth:            []ssh.AuthMethod{ssh.Password(password)},
		HostKeyCallback: ssh.FixedHostKey(hostKeys[0].Signer.PublicKey()),
	})
	if err != nil {
		log.Fatal(err)
	}
	_, _, err = c.OpenChannel("direct-tcpip", nil)
	fmt.Println(err)
	c.Close()
	cancel()
	fmt.Println(<-ended)
	// Output:
	// haul is here
	// ssh: rejected: administratively prohibited ("there are sessions only")
	// <nil>
}
