package privilege_test

import (
	"fmt"

	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
)

// A server that was started as root looks its user up early. Confine and Drop follow when
// everything is open. They cannot be undone.
func Example() {
	if _, err := privilege.LookUp("root"); err != nil {
		fmt.Println(err)
	}
	u, err := privilege.LookUp("993:990")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(u.UID, u.GID, u.Groups)
	// Output:
	// user "root": that is root; name a user with fewer rights
	// 993 990 []
}
