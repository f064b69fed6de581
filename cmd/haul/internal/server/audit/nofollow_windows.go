package audit

const noFollow = 0 // users need a right of their own to make links
