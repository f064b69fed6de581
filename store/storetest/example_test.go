package storetest_test

import (
	"context"
	"fmt"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

// Try all operations on a view that restricts a tree.
func ExampleOperations() {
	view := store.ReadOnly(store.Mem(0))
	for _, o := range storetest.Operations() {
		if o.Changes && o.Do(context.Background(), view) == nil {
			fmt.Println(o.Name, "is possible")
		}
	}
	fmt.Println("nothing else can be changed")
	// Output: nothing else can be changed
}
