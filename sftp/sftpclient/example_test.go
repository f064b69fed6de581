package sftpclient_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"os/exec"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
)

// serveMemory serves a store in memory to one user, on a free port.
func serveMemory() (addr string, client *ssh.ClientConfig, stop func()) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		panic(err)
	}
	config := &ssh.ServerConfig{PasswordCallback: func(_ ssh.ConnMetadata, p []byte) (*ssh.Permissions, error) {
		if string(p) != "secret" {
			return nil, errors.New("wrong password")
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	files := store.Mem(0)
	s := &sftp.Server{
		SSH: func(context.Context, net.Conn) (*ssh.ServerConfig, error) { return config, nil },
		Login: func(_ context.Context, c *ssh.ServerConn) (*sftp.Account, error) {
			return &sftp.Account{User: c.User(), Tree: files}, nil
		},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	client = &ssh.ClientConfig{
		User: "me", Auth: []ssh.AuthMethod{ssh.Password("secret")}, HostKeyCallback: ssh.FixedHostKey(signer.PublicKey()),
	}
	return l.Addr().String(), client, func() {
		cancel()
		if err := <-done; err != nil {
			panic(err)
		}
	}
}

// Log in to a server, write a file, and read it back.
func Example() {
	addr, config, stop := serveMemory()
	defer stop()
	ctx := context.Background()

	c, err := sftpclient.Dial(ctx, addr, config, sftpclient.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	f, err := c.Create(ctx, "greeting")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	fmt.Fprint(f, "hello, world\n") // does not wait for the server
	if err := f.Close(); err != nil {
		fmt.Println(err) // reports an error of the write too
	}

	if f, err = c.Open(ctx, "greeting"); err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	fmt.Printf("%q %v\n", b, err)

	_, err = c.Stat(ctx, "nothing")
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output:
	// "hello, world\n" <nil>
	// true
}

// Upload a file that appears in one step when it is complete.
func ExampleClient_Store() {
	addr, config, stop := serveMemory()
	defer stop()
	ctx := context.Background()
	c, err := sftpclient.Dial(ctx, addr, config, sftpclient.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	put := func(st store.Store, name string, data []byte) error {
		u, err := st.Create(ctx, name, store.Create{Size: int64(len(data))})
		if err != nil {
			return err
		}
		defer u.Close() // discards the upload unless it was committed
		if _, err := u.WriteAt(data, 0); err != nil {
			return err
		}
		return u.Commit()
	}
	if err := put(c.Store("/"), "report", bytes.Repeat([]byte("x"), 100_000)); err != nil {
		fmt.Println(err)
	}

	err = fs.WalkDir(c.FS("/"), ".", func(name string, d fs.DirEntry, err error) error {
		fmt.Println(name)
		return err
	})
	fmt.Println(err)
	// Output:
	// .
	// report
	// <nil>
}

// OpenSSH's ssh logs in with the user's configuration, and the client speaks SFTP through it.
func ExampleNewStream() {
	ctx := context.Background()
	connect := func(context.Context) (io.ReadWriteCloser, error) {
		cmd := exec.Command("ssh", "-s", "--", "files.example", "sftp")
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		return sshStream{out, in, cmd}, cmd.Start()
	}
	first, err := connect(ctx)
	if err != nil {
		log.Print(err)
		return
	}
	// For a large file on a long path, the client opens further streams.
	c, err := sftpclient.NewStream(ctx, first, sftpclient.Config{ConnectStream: connect})
	if err != nil {
		log.Print(err)
		return
	}
	defer c.Close()
	names, err := c.ReadDir(ctx, ".")
	fmt.Println(len(names), err)
}

// An sshStream is an ssh process, used as a stream.
type sshStream struct {
	io.Reader
	io.WriteCloser
	cmd *exec.Cmd
}

func (s sshStream) Close() error {
	_ = s.WriteCloser.Close() // ssh ends with its input,
	_ = s.cmd.Process.Kill()  // and does not wait for the network
	return s.cmd.Wait()
}
