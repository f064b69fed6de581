package openssh_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/haul-project/haul/cmd/haul/internal/client/openssh"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	config := filepath.Join(dir, "config")
	text := `
Host backup
    HostName %h.example.org
    User archive
    ProxyJump gate:2222
Host gate
    ServerAliveInterval 15
`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	dest, err := openssh.Resolve(ctx, "backup", openssh.Overrides{File: config})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s@%s port %d, through %s port %d\n", dest.User, dest.Host, dest.Port, dest.Jump.Host, dest.Jump.Port)

	// Dial would connect to this host, and ask its questions through a Prompter. No server listens on
	// the port of this example, so Dial fails.
	dest = openssh.Destination{User: "archive", Host: "localhost", Port: 1}
	_, err = new(openssh.Dialer).Dial(ctx, dest)
	switch {
	case errors.Is(err, openssh.ErrConfig):
		fmt.Println("mend your configuration")
	case errors.Is(err, openssh.ErrHostKey):
		fmt.Println("do not trust this host")
	case errors.Is(err, openssh.ErrAuth):
		fmt.Println("it does not let us in")
	case err != nil:
		fmt.Println("it cannot be reached")
	}
	// Output:
	// archive@backup.example.org port 22, through gate port 2222
	// it cannot be reached
}
