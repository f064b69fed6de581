package users_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/haul-project/haul/users"
	"golang.org/x/crypto/ssh"
)

// Add a user to the users file, and check passwords against it.
func Example() {
	dir, err := os.MkdirTemp("", "users")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "users")

	hash, err := users.HashPassword([]byte("correct horse"))
	if err != nil {
		log.Fatal(err)
	}
	if err := users.Add(context.Background(), file, users.User{Name: "alice", Password: hash, Access: users.ReadOnly}); err != nil {
		log.Fatal(err)
	}
	d, err := users.Open(file)
	if err != nil {
		log.Fatal(err)
	}

	a := users.Attempt{Now: time.Now(), Peer: netip.MustParseAddr("192.0.2.1")}
	for _, password := range []string{"correct horse", "battery staple"} {
		login, err := d.Password(context.Background(), a, "alice", []byte(password))
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(login.User.Name, login.Access)
	}
	// Output:
	// alice read-only
	// login refused: wrong password
}

// Create a temporary user for a server without a users file.
func ExampleOneTime() {
	dir, err := os.MkdirTemp("", "users")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	keys, err := users.HostKeys(dir)
	if err != nil {
		log.Fatal(err)
	}
	d, password, err := users.OneTime(users.Full)
	if err != nil {
		log.Fatal(err)
	}
	var config ssh.ServerConfig
	for _, k := range keys {
		config.AddHostKey(k.Signer)
	}
	d.Configure(&config, users.Options{})
	fmt.Println("user", users.OneTimeUser, "with a password of", len(password), "characters")
	fmt.Println("host key made:", keys[0].Created, len(keys[0].Fingerprint()))
	// Output:
	// user haul with a password of 23 characters
	// host key made: true 50
}
