package remap_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/haul-project/haul/cmd/haul/internal/tftp/remap"
)

func Example() {
	rules, err := remap.Parse(`
rg \\ /                       # Windows loaders
a  \.key$    keys\ stay\ here
rG ^config$  hosts/\i/config  # one for each client
`)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{`boot\kernel`, "config", "host.key"} {
		name, err := rules.Apply(remap.Query{Name: name, Addr: "192.0.2.7", Hex: "C0000207"})
		if abort, ok := errors.AsType[*remap.Abort](err); ok {
			fmt.Println("ERROR 2:", abort.Message)
			continue
		}
		fmt.Println(name, err)
	}
	// Output:
	// boot/kernel <nil>
	// hosts/192.0.2.7/config <nil>
	// ERROR 2: keys stay here
}
