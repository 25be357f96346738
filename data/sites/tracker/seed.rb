# Fill the tracker: users, projects with versions, issues with comments, spent time, wiki pages, forums and news. The same content
# every time. Run once on a migrated database with Redmine's default data: `rails runner seed.rb`. Refuses to run twice.

abort "the tracker is filled already; use reset to restore it" if Project.exists?

RNG = Random.new(11)
TODAY = Time.utc(2026, 9, 1, 9, 0, 0)
PASSWORD = "password123"
PEOPLE = [
  %w[alice Smith], %w[bruno Rossi], %w[carmen Garcia], %w[devi Patel], %w[elif Kaya], %w[farid Nasser], %w[grace Lee], %w[hiro Tanaka]
].freeze
PROJECTS = [
  ["harbour", "Harbour Booking", "Berths, crews and invoices of a small harbour."],
  ["webshop", "Web Shop", "Storefront and back office of the shop."],
  ["mobile", "Mobile App", "Clients for phones and tablets."],
  ["infra", "Infrastructure", "Servers, builds and monitoring."]
].freeze
COMPLAINTS = [
  "Crash when using", "Wrong total in", "Slow response of", "Add an option for", "Document", "Timeout in", "Missing translation in", "Broken link in",
  "Tidy up", "Keyboard trap in", "Support dark mode in", "Regression in"
].freeze
PLACES = [
  "the settings page", "the CSV export", "the search box", "the invoice preview", "the calendar view", "the login form", "large uploads", "the checkout page",
  "email notifications", "the REST API", "the report builder", "the release pipeline", "the date picker", "the branch selector", "the database migration"
].freeze
TEXTS = [
  "Steps to reproduce:\n\n# Open the page\n# Press *Save*\n# Look at the message\n\nExpected: the form is stored.\nActual: an error page.",
  "This happens in two browsers but not in the third.",
  "We should talk about this at the next planning meeting, see [[Installation]].",
  "<pre>\nTraceback (most recent call last):\n  File \"views.py\", line 212, in dispatch\nKeyError: 'HEAD'\n</pre>",
  "I can confirm this with the latest version. Clearing the cache helps for a while.",
  "Fixed in the development branch, please test.",
  "Somebody else should take this over, I am on holiday until next week."
].freeze

def pick(list) = list[RNG.rand(list.size)]

def pick_some(list, count) = list.shuffle(random: RNG).first(count)

def make_users
  admin = User.find_by_login("admin")
  admin.password = PASSWORD
  admin.must_change_passwd = false
  admin.save!(validate: false)
  PEOPLE.map do |login, last|
    user = User.new(firstname: login.capitalize, lastname: last, mail: "#{login}@example.com", language: "en")
    user.login = login
    user.password = PASSWORD
    user.save!
    user
  end
end

def make_project(identifier, name, description, users, roles)
  project = Project.new(identifier: identifier, name: name, description: description, is_public: true)
  project.enabled_module_names = %w[issue_tracking time_tracking news documents wiki boards calendar gantt]
  project.trackers = Tracker.order(:id).to_a
  project.save!
  users.each_with_index { |user, i| Member.create!(project: project, principal: user, roles: [roles[i % roles.size]]) }
  project
end

def make_issues(project, users)
  versions = ["1.0", "1.1", "2.0"].each_with_index.map do |number, i|
    Version.create!(project: project, name: number, effective_date: TODAY.to_date + (30 * (i - 1)), description: "Release #{number}")
  end
  categories = %w[Backend Frontend Docs].map { |name| IssueCategory.create!(project: project, name: name) }
  statuses, priorities, trackers = IssueStatus.order(:id).to_a, IssuePriority.active.order(:position).to_a, project.trackers.order(:id).to_a
  activities = TimeEntryActivity.active.order(:position).to_a
  pick_some(COMPLAINTS.product(PLACES), 30).each do |complaint, place|
    opened = TODAY - RNG.rand(3600 * 24 * 90)
    issue = Issue.new(
      project: project, subject: "#{complaint} #{place}", description: pick_some(TEXTS, 2).join("\n\n"), tracker: pick(trackers), author: pick(users),
      priority: pick(priorities), category: pick(categories), fixed_version: pick(versions), assigned_to: [nil, pick(users)][RNG.rand(2)],
      start_date: opened.to_date, due_date: [nil, opened.to_date + 10 + RNG.rand(90)][RNG.rand(2)], estimated_hours: [nil, 1 + RNG.rand(20)][RNG.rand(2)]
    )
    issue.status = statuses.first
    issue.notify = false
    issue.save!(validate: false)
    comments = RNG.rand(4)
    comments.times do |k|
      issue = Issue.find(issue.id) # a fresh object starts a journal of its own
      issue.notify = false
      journal = issue.init_journal(pick(users), pick(TEXTS))
      issue.status = pick(statuses) if RNG.rand < 0.3
      issue.done_ratio = pick([0, 10, 30, 50, 80])
      issue.save!(validate: false)
      Journal.where(id: journal.id).update_all(created_on: opened + (3600 * 5 * (k + 1)))
    end
    changed = opened + (3600 * 5 * comments)
    Issue.where(id: issue.id).update_all(created_on: opened, updated_on: changed)
    Issue.where(id: issue.id).where.not(closed_on: nil).update_all(closed_on: changed)
    next unless RNG.rand < 0.5

    entry = TimeEntry.new(project: project, issue: issue, hours: 0.5 + RNG.rand(12), spent_on: changed.to_date, comments: "work on it", activity: pick(activities))
    entry.user = entry.author = pick(users)
    entry.save!(validate: false)
  end
end

def make_pages(project, users)
  wiki = project.wiki || Wiki.create!(project: project, start_page: "Wiki")
  port = 8000 + RNG.rand(90)
  %w[Wiki Installation FAQ Release_notes].each do |title|
    page = WikiPage.new(wiki: wiki, title: title)
    page.content = WikiContent.new(
      page: page, author: pick(users),
      text: "h1. #{title.tr('_', ' ')}\n\n{{toc}}\n\nh2. Overview\n\nThis page describes *#{project.name}*. See [[Installation]] and [[FAQ]].\n\n" \
            "h2. Settings\n\n|_.Setting|_.Default|\n|port|#{port}|\n|debug|false|\n|workers|#{2 + RNG.rand(9)}|\n\n" \
            "h2. Start\n\n<pre>\nservice #{project.identifier} start --port #{port}\n</pre>\n"
    )
    page.content.notify = false if page.content.respond_to?(:notify=)
    page.save!
  end
end

def make_talk(project, users, admin)
  board = Board.create!(project: project, name: "Help", description: "Questions and answers")
  pick_some(PLACES, 8).each do |place|
    question = Message.create!(board: board, author: pick(users), subject: "Question about #{place}", content: pick(TEXTS))
    RNG.rand(4).times { Message.create!(board: board, author: pick(users), subject: "RE: #{question.subject}", content: pick(TEXTS), parent: question) }
  end
  News.create!(project: project, author: admin, title: "#{project.name} 2.0 is out", summary: "New version", description: "Thanks to everybody who helped.")
end

ActiveRecord::Base.connection.execute("PRAGMA synchronous = OFF")
Setting.app_title = "Arena Projects"
Setting.default_language = "en"
Setting.notified_events = []
Setting.login_required = "0"
Setting.gravatar_enabled = "0"
Setting.per_page_options = "25,50,100"
ActionMailer::Base.perform_deliveries = false
users = make_users
admin = User.find_by_login("admin")
User.current = admin
roles = Role.givable.order(:position).to_a
PROJECTS.each do |identifier, name, description|
  project = make_project(identifier, name, description, users, roles)
  make_issues(project, users)
  make_pages(project, users)
  make_talk(project, users, admin)
end
[Project, User].each { |kind| kind.update_all(created_on: TODAY - (3600 * 24 * 120)) }
[Message, News, Version].each { |kind| kind.update_all(created_on: TODAY - (3600 * 24 * 7)) }
puts "tracker: #{Project.count} projects, #{Issue.count} issues, #{Journal.count} comments, #{TimeEntry.count} time entries"
