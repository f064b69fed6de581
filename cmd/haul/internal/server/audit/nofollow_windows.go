package audit

const noFollow = 0 // not needed, because users need a special right to create symbolic links
