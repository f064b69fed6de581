package glob_test

import (
	"context"
	"fmt"
	"log"

	"github.com/haul-project/haul/internal/glob"
	"github.com/haul-project/haul/store"
)

// Expand a pattern against the names in a tree, here one in memory.
func Example() {
	ctx, tree := context.Background(), store.Mem(0)
	for _, name := range []string{"logs/app.log", "logs/old/app.log", "logs/readme", "logs/.hidden.log"} {
		u, err := tree.Create(ctx, name, store.Create{Parents: true})
		if err != nil {
			log.Fatal(err)
		}
		if err := u.Commit(); err != nil {
			log.Fatal(err)
		}
		_ = u.Close()
	}
	found, err := glob.Expand(ctx, tree, "logs/**/*.log")
	for _, m := range found {
		fmt.Println(m.Name)
	}
	fmt.Println(err)
	// Output:
	// logs/app.log
	// logs/old/app.log
	// <nil>
}
