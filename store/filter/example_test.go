package filter_test

import (
	"fmt"

	"github.com/haul-project/haul/store/filter"
)

func Example() {
	rules := new(filter.Rules)
	if err := rules.AddText("- /build/\n+ *.go\n- **\n"); err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"main.go", "cmd/haul/main.go", "build/main.go", "README.md"} {
		fmt.Println(name, rules.Match(name, false) == filter.Take)
	}
	fmt.Println("build", rules.Match("build", true) == filter.Skip)
	// Output:
	// main.go true
	// cmd/haul/main.go true
	// build/main.go false
	// README.md false
	// build true
}
