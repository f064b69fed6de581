package treecopy_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// Copy the logs of a tree, by a pattern, into a new directory. A server's tree comes from
// sftpclient.Client.Store or webclient.New.
func Example() {
	ctx := context.Background()
	from, to := store.Mem(0), store.Mem(0)
	for name, text := range map[string]string{"var/log/a.log": "one\n", "var/log/b.log": "two\n", "var/log/b.txt": "three\n"} {
		u, err := from.Create(ctx, name, store.Create{})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := u.WriteAt([]byte(text), 0); err != nil {
			log.Fatal(err)
		}
		if err := u.Commit(); err != nil {
			log.Fatal(err)
		}
	}

	result, err := treecopy.Copy(ctx, treecopy.Job{
		Sources: []treecopy.Source{{Tree: from, Name: "var/log/*.log"}, {Tree: from, Name: "none"}},
		To:      to,
		Target:  "logs/",
		Options: treecopy.Options{PreserveTimes: true},
	})
	fmt.Println(result.Copied, "files,", result.Bytes, "bytes")
	fmt.Println(err, errors.Is(err, fs.ErrNotExist))

	list, err := to.ReadDir(ctx, "logs")
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range list {
		fmt.Println(e.Name())
	}
	// Output:
	// 2 files, 8 bytes
	// copy none: stat none: file does not exist true
	// a.log
	// b.log
}
