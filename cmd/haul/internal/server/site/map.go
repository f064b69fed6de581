package site

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/tftp/remap"
	"github.com/haul-project/haul/store"
)

// MapQuery returns the query with which [remap.Rules] rewrite the name of a request. exists reports
// whether the request could use a name.
func MapQuery(name string, write bool, client netip.Addr, exists func(name string) bool) remap.Query {
	text := ""
	if client.IsValid() {
		text = client.String()
	}
	return remap.Query{
		Name:   name,
		Write:  write,
		Addr:   text,
		Hex:    strings.ToUpper(hex.EncodeToString(client.AsSlice())),
		IPv6:   client.Is6(),
		Exists: exists,
	}
}

// TraceMap prints how a map rewrites a name, rule by rule. It returns an error if the map refuses
// the name.
func TraceMap(out io.Writer, rules *remap.Rules, q remap.Query) error {
	fmt.Fprintf(out, "%q\n", q.Name)
	result, err := rules.Trace(q, func(s remap.Step) {
		fmt.Fprintf(out, "  line %d: %s\n    %q", s.Line, s.Rule, s.Name)
		if s.Then != "" {
			fmt.Fprintf(out, ", then %s", s.Then)
		}
		fmt.Fprintln(out)
	})
	if err == nil {
		fmt.Fprintf(out, "  = %q\n", result)
		_, err = store.CleanName(result)
	}
	if err != nil {
		fmt.Fprintf(out, "  refused: %v\n", err)
	}
	return err
}
